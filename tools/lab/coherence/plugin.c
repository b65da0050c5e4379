// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU that counts the cache lines which move between the CPUs of a guest
 *
 * No machine of ours has 64 CPUs, but QEMU's TCG can run a guest with that many, and its plugins
 * see each access to memory with its physical address. So contention can be counted without
 * hardware. lines.h has the rule: a transfer is a load or a store for which a line has to come
 * from elsewhere.
 *
 * 1. A window
 *
 * The guest says by markers (marker.h) when to follow the accesses, when to count, and when to
 * stop. Before MARK_ARM only markers are instrumented, and the boot runs at full speed. MARK_ARM
 * resets the plugin: QEMU drops all translated blocks and translates them again, now with
 * callbacks for each block and each access. MARK_CLOSE writes the figures and resets the plugin
 * back.
 *
 * 2. Whose access it is
 *
 * All CPUs take turns in one host thread. There, QEMU 10.0 gives callbacks the number of the CPU
 * that translated the block. Kernel code is shared, so most accesses would be another CPU's. So
 * each block asks current_cpu, which QEMU sets at each turn. In test/bare.S the CPUs share
 * blocks, so that a plugin which trusts the number counts transfers where none are.
 *
 * 3. Whose turn it is
 *
 * QEMU's own turns last for (time to the next timer) / (number of CPUs) instructions. So a guest
 * with few timers would hardly contend. The plugin ends a turn after SLICE instructions, at the
 * end of the block in which the count is reached. A turn may be shorter: a timer is due, or the
 * CPU sleeps. The log says how long the turns were on average, and how many the plugin ended. On
 * hardware all CPUs run at once, so a short slice is nearer to it than a long one. slice=0 leaves
 * QEMU's turns.
 *
 * 4. One instruction, one transfer
 *
 * TCG splits an instruction such as LOCK XADD into a load and a store, as it does with INC. If
 * the load has moved the line, the store that follows from the same instruction cannot move it
 * again. If the line was shared, the load is a hit and the store is the transfer. So it counts
 * once either way. (In one thread nothing runs between them.) CMPXCHG always stores, as it does
 * in hardware.
 *
 * 5. Whose fault it is
 *
 * A site is the address of an instruction; lab finds its symbol and module. But a scheduler's
 * lock is taken in a function of the kernel, and so is its tree walked. So MARK_ARM names ranges
 * of code, those of the scheduler. When a block of a range runs on a stack, the plugin notes the
 * stack pointer at which the range was entered. Until the function returns, all that runs on that
 * stack at or below this pointer is a callee's, and its transfers are caused by the range. An
 * interrupt has a stack of its own and is not. A tail call leaves no frame of the range: the
 * plugin then compares the return address that lay there. What a scheduler starts but does not
 * call (a work item, a wake-up's consequences) is not attributed to it.
 *
 * 6. The log, one record a line, numbers in hexadecimal but for counts
 *
 *	window NAME
 *	cpus NR slice SLICE
 *	turns NR ended NR insns NR
 *	transfer PC VADDR load|store caused|alone COUNT CPUS LINE OWNER SHARERS
 *	block PC INSNS COUNT
 *	close
 *
 * A transfer names the instruction, an address in the line, how often, and on how many CPUs.
 * OWNER last wrote the line and SHARERS have it, at the end of the window. COUNT of a block is
 * how often it ran: a function's calls are the runs of its first block.
 *
 * At the end stands "done", or "open NAME" if the guest ended within a window. A log without
 * either was cut short.
 *
 * 7. Limits
 *
 * Caches are endless and have no sockets. An interrupt's first instructions use the stack that
 * they came upon. No prefetcher, no store buffer, no speculation: a line that a real CPU touches
 * by mistake is not counted. An interrupt within a block counts the whole block's instructions.
 * Accesses of devices are not seen. Which CPU contends depends on SLICE: give figures for
 * several, and the band of repeats.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "marker.h"
#include "qemu_api.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = API_LEVEL;
EXPORT int qemu_plugin_install(plugin_id id, const struct plugin_info *info, int argc,
			       char **argv);

enum {
	STACK_SHIFT	= 14,		/* a kernel stack is 16 KiB */
	NR_STACKS	= 1 << 12,
	MAX_SITES	= 1 << 22,
	MARKER_BYTES	= 8,
};

/* A translated block. */
struct block {
	struct block *next;
	uint64_t pc;
	uint64_t runs;
	unsigned int nr_insns;
};

/* Transfers of one line by one instruction. */
struct site {
	uint64_t pc;
	uint64_t line;			/* physical address >> LINE_SHIFT */
	bool is_store, caused, used;
	uint64_t count, vaddr;
	uint64_t cpus[MAX_CPUS / 64];
};

/* Where on a stack the code of a range was entered. */
struct entry {
	uint64_t stack;			/* address >> STACK_SHIFT */
	uint64_t at;			/* RSP at the first instruction of a range; 0: none */
	uint64_t returns_to;		/* after a tail call: what lay there */
};

static struct {
	plugin_id id;
	FILE *log;
	const char *log_path;
	unsigned int slice, nr_cpus;
	void *cpus[MAX_CPUS];
	struct plugin_register *rsp, *rdi;
	struct g_byte_array *bytes;
	bool failed;			/* the log cannot be written */
} self;

static struct {
	struct mark_window mark;
	bool armed, open;
	uint64_t nr_turns, nr_ended, nr_insns;
	struct block *blocks;
	struct site *sites;
	size_t nr_slots, nr_sites;
	struct entry entries[NR_STACKS];
} window;

/* The turn that lasts. */
static struct {
	void *cpu;
	unsigned int index, insns;
	/* The last load that moved or hit a line, for the store of the same instruction. */
	struct line *loaded;
	uint64_t loaded_by;
	bool load_moved;
} turn;

static void complain(const char *what)
{
	fprintf(stderr, "coherence: %s\n", what);
	self.failed = true;
}

/* ---- the running CPU ---- */

static unsigned int index_of(void *cpu)
{
	for (unsigned int i = 0; i < self.nr_cpus; i++)
		if (self.cpus[i] == cpu)
			return i;
	for (unsigned int i = 0; i < MAX_CPUS; i++)
		self.cpus[i] = qemu_get_cpu(i);
	for (unsigned int i = 0; i < MAX_CPUS; i++)
		if (self.cpus[i] == cpu) {
			if (i >= self.nr_cpus)
				self.nr_cpus = i + 1;
			return i;
		}
	complain("a CPU runs that QEMU does not list");
	return 0;
}

static void block_runs(unsigned int translator, void *data)
{
	struct block *block = data;
	void *cpu = current_cpu;

	if (cpu != turn.cpu) {
		turn.cpu = cpu;
		turn.index = index_of(cpu);
		turn.insns = 0;
		turn.loaded = NULL;
		window.nr_turns += window.open;
	}
	turn.insns += block->nr_insns;
	if (window.open) {
		block->runs++;
		window.nr_insns += block->nr_insns;
	}
	if (self.slice && turn.insns >= self.slice) {
		turn.insns = 0;
		window.nr_ended += window.open;
		cpu_exit(current_cpu);
	}
}

/* ---- what a range causes ---- */

static uint64_t read_register(struct plugin_register *handle)
{
	uint64_t value = 0;

	g_byte_array_set_size(self.bytes, 0);
	if (plugin_read_register(handle, self.bytes) == sizeof(value))
		memcpy(&value, self.bytes->data, sizeof(value));
	return value;
}

static bool read_guest(uint64_t vaddr, void *to, size_t length)
{
	g_byte_array_set_size(self.bytes, 0);
	if (!plugin_read_memory(vaddr, self.bytes, length) || self.bytes->len != length)
		return false;
	memcpy(to, self.bytes->data, length);
	return true;
}

static struct entry *entry_of(uint64_t rsp)
{
	uint64_t hash = (rsp >> STACK_SHIFT) * 0x9e3779b97f4a7c15ULL;

	return &window.entries[hash >> 32 & (NR_STACKS - 1)];
}

static bool in_ranges(uint64_t pc)
{
	for (unsigned int i = 0; i < window.mark.nr_ranges; i++)
		if (pc >= window.mark.ranges[i][0] && pc < window.mark.ranges[i][1])
			return true;
	return false;
}

/* A block of a range runs. */
static void range_runs(unsigned int translator, void *data)
{
	uint64_t rsp = read_register(self.rsp);
	struct entry *entry = entry_of(rsp);

	if (entry->at && entry->stack == rsp >> STACK_SHIFT && rsp <= entry->at &&
	    !entry->returns_to)
		return;
	*entry = (struct entry){ .stack = rsp >> STACK_SHIFT, .at = rsp };
}

/* A function of a range is about to return. */
static void range_returns(unsigned int translator, void *data)
{
	uint64_t rsp = read_register(self.rsp);
	struct entry *entry = entry_of(rsp);

	if (entry->stack == rsp >> STACK_SHIFT && entry->at <= rsp)
		entry->at = 0;
}

/* A function of a range is about to jump out of it. */
static void range_jumps(unsigned int translator, void *data)
{
	uint64_t rsp = read_register(self.rsp);
	struct entry *entry = entry_of(rsp);

	if (entry->at == rsp && entry->stack == rsp >> STACK_SHIFT &&
	    !read_guest(rsp, &entry->returns_to, sizeof(entry->returns_to)))
		entry->at = 0;
}

static bool is_caused(void)
{
	uint64_t rsp, there;
	struct entry *entry;

	if (!window.mark.nr_ranges)
		return false;
	rsp = read_register(self.rsp);
	entry = entry_of(rsp);
	if (!entry->at || entry->stack != rsp >> STACK_SHIFT || rsp > entry->at)
		return false;
	if (!entry->returns_to)
		return true;
	return read_guest(entry->at, &there, sizeof(there)) && there == entry->returns_to;
}

/* ---- transfers ---- */

static size_t site_slot(const struct site *sites, size_t nr_slots, const struct site *wanted)
{
	size_t at = (wanted->pc * 0x9e3779b97f4a7c15ULL ^
		     (wanted->line * 4 + wanted->is_store * 2 + wanted->caused) *
		     0xc2b2ae3d27d4eb4fULL) >> 24 & (nr_slots - 1);

	while (sites[at].used && (sites[at].pc != wanted->pc || sites[at].line != wanted->line ||
				  sites[at].is_store != wanted->is_store ||
				  sites[at].caused != wanted->caused))
		at = (at + 1) & (nr_slots - 1);
	return at;
}

static bool grow_sites(void)
{
	size_t nr_slots = window.nr_slots ? 2 * window.nr_slots : 1 << 12;
	struct site *sites = nr_slots > MAX_SITES ? NULL : calloc(nr_slots, sizeof(*sites));

	if (!sites)
		return false;
	for (size_t i = 0; i < window.nr_slots; i++)
		if (window.sites[i].used)
			sites[site_slot(sites, nr_slots, &window.sites[i])] = window.sites[i];
	free(window.sites);
	window.sites = sites;
	window.nr_slots = nr_slots;
	return true;
}

static void count_transfer(uint64_t pc, uint64_t vaddr, uint64_t phys, bool is_store)
{
	struct site wanted = { .pc = pc, .line = phys >> LINE_SHIFT, .is_store = is_store,
			       .caused = is_caused(), .used = true, .vaddr = vaddr };
	struct site *site;

	if (2 * window.nr_sites >= window.nr_slots && !grow_sites()) {
		if (!self.failed)
			complain("the window has too many transfers to remember; make it shorter");
		return;
	}
	site = &window.sites[site_slot(window.sites, window.nr_slots, &wanted)];
	if (!site->used) {
		*site = wanted;
		window.nr_sites++;
	}
	site->count++;
	site->cpus[turn.index / 64] |= 1ULL << turn.index % 64;
}

static void touch(uint64_t pc, uint64_t vaddr, uint64_t phys, bool is_store)
{
	struct line *line = line_of(phys);
	bool moved, again;

	if (!line) {
		if (!self.failed)
			complain("there is no memory to follow the guest's lines");
		return;
	}
	again = is_store && turn.loaded == line && turn.loaded_by == pc && turn.load_moved;
	moved = line_access(line, turn.index, is_store);
	turn.loaded = is_store ? NULL : line;
	turn.loaded_by = pc;
	turn.load_moved = moved;
	if (moved && !again && window.open)
		count_transfer(pc, vaddr, phys, is_store);
}

static void memory_accessed(unsigned int translator, uint32_t info, uint64_t vaddr, void *data)
{
	struct hwaddr *hwaddr = memory_hwaddr(info, vaddr);
	uint64_t pc = (uintptr_t)data, phys;
	bool is_store = memory_is_store(info);

	if (!hwaddr || hwaddr_is_io(hwaddr))
		return;
	phys = hwaddr_phys(hwaddr);
	touch(pc, vaddr, phys, is_store);
	/* An access that crosses the end of a line touches the next as well. */
	if ((phys & (LINE_BYTES - 1)) + (1U << memory_size_shift(info)) > LINE_BYTES)
		touch(pc, (vaddr | (LINE_BYTES - 1)) + 1, (phys | (LINE_BYTES - 1)) + 1, is_store);
}

/* ---- the log ---- */

static void write_site(const struct site *site)
{
	const struct line *line = line_of(site->line << LINE_SHIFT);
	unsigned int nr_cpus = 0;

	for (unsigned int i = 0; i < MAX_CPUS / 64; i++)
		nr_cpus += __builtin_popcountll(site->cpus[i]);
	fprintf(self.log, "transfer %lx %lx %s %s %lu %u %lx %u %u\n", site->pc, site->vaddr,
		site->is_store ? "store" : "load", site->caused ? "caused" : "alone", site->count,
		nr_cpus, site->line, line->writer, line_nr_sharers(line));
}

static void write_window(void)
{
	FILE *log = self.log;

	fprintf(log, "window %s\ncpus %u slice %u\nturns %lu ended %lu insns %lu\n",
		window.mark.name, self.nr_cpus, self.slice, window.nr_turns, window.nr_ended,
		window.nr_insns);
	for (size_t i = 0; i < window.nr_slots; i++)
		if (window.sites[i].used)
			write_site(&window.sites[i]);
	for (struct block *block = window.blocks; block; block = block->next)
		if (block->runs)
			fprintf(log, "block %lx %u %lu\n", block->pc, block->nr_insns, block->runs);
	fprintf(log, "close\n");
	if (fflush(log) || ferror(log)) {
		fprintf(stderr, "coherence: the log %s cannot be written: %s\n", self.log_path,
			strerror(errno));
		self.failed = true;
	}
}

static void forget_window(void)
{
	while (window.blocks) {
		struct block *next = window.blocks->next;

		free(window.blocks);
		window.blocks = next;
	}
	free(window.sites);
	memset(&window, 0, sizeof(window));
	memset(&turn, 0, sizeof(turn));
	lines_forget();
}

/* ---- translation ---- */

static void find_registers(void)
{
	struct g_array *found = plugin_registers();
	struct register_descriptor *descriptors = (void *)found->data;

	for (unsigned int i = 0; i < found->len; i++) {
		if (!strcmp(descriptors[i].name, "rsp"))
			self.rsp = descriptors[i].handle;
		if (!strcmp(descriptors[i].name, "rdi"))
			self.rdi = descriptors[i].handle;
	}
}

static void translate_markers(plugin_id id, struct tb *tb);
static void translate_all(plugin_id id, struct tb *tb);

static void at_exit(plugin_id id, void *data)
{
	if (window.armed)
		fprintf(self.log, "open %s\n", window.mark.name);
	else if (!self.failed)
		fprintf(self.log, "done\n");
	fclose(self.log);
}

/* A reset has dropped all callbacks, that of the exit too. */
static void follow(plugin_id id)
{
	plugin_on_translate(id, translate_all);
	plugin_on_exit(id, at_exit, NULL);
}

static void rest(plugin_id id)
{
	forget_window();
	plugin_on_translate(id, translate_markers);
	plugin_on_exit(id, at_exit, NULL);
}

static void marked(unsigned int translator, void *data)
{
	switch ((uintptr_t)data) {
	case MARK_ARM:
		if (window.armed || self.failed)
			return;
		if (!self.rdi)
			find_registers();
		if (!read_guest(read_register(self.rdi), &window.mark, sizeof(window.mark)) ||
		    window.mark.nr_ranges > MARK_RANGES) {
			complain("a window of the guest has no readable name");
			return;
		}
		window.mark.name[MARK_NAME - 1] = '\0';
		window.armed = true;
		plugin_reset(self.id, follow);
		break;
	case MARK_OPEN:
		window.open = window.armed;
		break;
	case MARK_CLOSE:
		if (!window.open)
			return;
		window.open = false;
		write_window();
		plugin_reset(self.id, rest);
		break;
	}
}

/* The marker that @insn is, or 0. */
static uint32_t marker_of(const struct insn *insn)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0x00 };
	uint8_t bytes[MARKER_BYTES];
	uint32_t mark;

	if (insn_size(insn) != MARKER_BYTES ||
	    insn_data(insn, bytes, sizeof(bytes)) != sizeof(bytes) ||
	    memcmp(bytes, nop, sizeof(nop)))
		return 0;
	memcpy(&mark, bytes + sizeof(nop), sizeof(mark));
	return mark >= MARK_ARM && mark <= MARK_CLOSE ? mark : 0;
}

static void translate_markers(plugin_id id, struct tb *tb)
{
	size_t nr = tb_nr_insns(tb);

	for (size_t i = 0; i < nr; i++) {
		struct insn *insn = tb_insn(tb, i);
		uint32_t mark = marker_of(insn);

		if (mark)
			plugin_on_insn(insn, marked, READ_REGS, (void *)(uintptr_t)mark);
	}
}

/* How the last instruction of a block of a range leaves its function. */
static void translate_range_end(struct insn *insn)
{
	uint8_t bytes[16];
	size_t size = insn_size(insn);
	int32_t distance;

	if (size > sizeof(bytes) || insn_data(insn, bytes, size) != size)
		return;
	if (bytes[0] == 0xc3 || (size == 2 && bytes[0] == 0xf3 && bytes[1] == 0xc3)) {
		plugin_on_insn(insn, range_returns, READ_REGS, NULL);
		return;
	}
	if (bytes[0] == 0xe9 && size == 5)
		memcpy(&distance, bytes + 1, sizeof(distance));
	else if (bytes[0] == 0xeb && size == 2)
		distance = (int8_t)bytes[1];
	else
		return;
	if (!in_ranges(insn_vaddr(insn) + size + distance))
		plugin_on_insn(insn, range_jumps, READ_REGS, NULL);
}

static void translate_all(plugin_id id, struct tb *tb)
{
	size_t nr = tb_nr_insns(tb);
	struct block *block = calloc(1, sizeof(*block));
	bool of_range = in_ranges(tb_vaddr(tb));

	if (!block) {
		complain("there is no memory for the guest's code");
		return;
	}
	block->pc = tb_vaddr(tb);
	block->nr_insns = nr;
	block->next = window.blocks;
	window.blocks = block;
	plugin_on_block(tb, block_runs, NO_REGS, block);
	if (of_range)
		plugin_on_block(tb, range_runs, READ_REGS, NULL);
	for (size_t i = 0; i < nr; i++) {
		struct insn *insn = tb_insn(tb, i);

		plugin_on_memory(insn, memory_accessed, NO_REGS, READS_AND_WRITES,
				 (void *)(uintptr_t)insn_vaddr(insn));
	}
	if (of_range)
		translate_range_end(tb_insn(tb, nr - 1));
	translate_markers(id, tb);
}

/* ---- begin ---- */

EXPORT int qemu_plugin_install(plugin_id id, const struct plugin_info *info, int argc, char **argv)
{
	if (info->version.min > API_LEVEL || info->version.cur != API_LEVEL) {
		fprintf(stderr, "coherence: the plugin is built for level %d of QEMU's plugin "
			"interface, and this QEMU has level %d\n", API_LEVEL, info->version.cur);
		return 1;
	}
	if (!info->system_emulation || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "coherence: the guest is no x86_64 machine\n");
		return 1;
	}
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "log=", 4))
			self.log_path = argv[i] + 4;
		else if (!strncmp(argv[i], "slice=", 6))
			self.slice = atoi(argv[i] + 6);
		else
			return complain(argv[i]), 1;
	}
	if (info->system.max_vcpus > MAX_CPUS) {
		fprintf(stderr, "coherence: %d CPUs are more than %d\n", info->system.max_vcpus,
			MAX_CPUS);
		return 1;
	}
	self.log = self.log_path ? fopen(self.log_path, "w") : NULL;
	if (!self.log) {
		fprintf(stderr, "coherence: the log %s cannot be opened\n",
			self.log_path ? self.log_path : "(log=FILE)");
		return 1;
	}
	self.id = id;
	self.bytes = g_byte_array_new();
	plugin_on_translate(id, translate_markers);
	plugin_on_exit(id, at_exit, NULL);
	return 0;
}
