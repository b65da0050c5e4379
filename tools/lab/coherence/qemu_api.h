/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What this plugin uses of QEMU: the plugin interface, level 4, and three symbols beside it
 *
 * Debian packages QEMU without the header of its plugin interface. So the declarations are ours.
 * QEMU tells its level when it installs the plugin, and the plugin refuses any other.
 *
 * The interface alone does not suffice. Under one TCG thread its callbacks get the number of the
 * CPU that translated a block, not of the CPU that runs it. And it has no way to end a CPU's
 * turn. Debian's QEMU exports its symbols, as its modules need them. So current_cpu,
 * qemu_get_cpu() and cpu_exit() are there; the dynamic linker refuses the plugin where they are
 * not.
 */
#ifndef COHERENCE_QEMU_API_H
#define COHERENCE_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef API_LEVEL
#define API_LEVEL 4
#endif

typedef uint64_t plugin_id;

struct plugin_info {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
};

/* GLib's, of which only the public part is known here. */
struct g_array {
	char *data;
	unsigned int len;
};

struct g_byte_array {
	uint8_t *data;
	unsigned int len;
};

struct g_byte_array *g_byte_array_new(void);
struct g_byte_array *g_byte_array_set_size(struct g_byte_array *array, unsigned int length);

struct tb;
struct insn;
struct plugin_register;
struct hwaddr;

struct register_descriptor {
	struct plugin_register *handle;
	const char *name;
	const char *feature;
};

enum callback_flags { NO_REGS, READ_REGS };
enum memory_accesses { READS = 1, WRITES, READS_AND_WRITES };

typedef void (*simple_callback)(plugin_id id);
typedef void (*translate_callback)(plugin_id id, struct tb *tb);
typedef void (*exec_callback)(unsigned int translator, void *data);
typedef void (*memory_callback)(unsigned int translator, uint32_t info, uint64_t vaddr,
				void *data);
typedef void (*exit_callback)(plugin_id id, void *data);

#define QEMU(name) __asm__("qemu_plugin_" #name)

void plugin_reset(plugin_id id, simple_callback callback) QEMU(reset);
void plugin_on_exit(plugin_id id, exit_callback callback, void *data) QEMU(register_atexit_cb);
void plugin_on_translate(plugin_id id, translate_callback callback)
	QEMU(register_vcpu_tb_trans_cb);
void plugin_on_block(struct tb *tb, exec_callback callback, enum callback_flags flags, void *data)
	QEMU(register_vcpu_tb_exec_cb);
void plugin_on_insn(struct insn *insn, exec_callback callback, enum callback_flags flags,
		    void *data) QEMU(register_vcpu_insn_exec_cb);
void plugin_on_memory(struct insn *insn, memory_callback callback, enum callback_flags flags,
		      enum memory_accesses accesses, void *data) QEMU(register_vcpu_mem_cb);

size_t tb_nr_insns(const struct tb *tb) QEMU(tb_n_insns);
uint64_t tb_vaddr(const struct tb *tb) QEMU(tb_vaddr);
struct insn *tb_insn(const struct tb *tb, size_t index) QEMU(tb_get_insn);
size_t insn_data(const struct insn *insn, void *to, size_t length) QEMU(insn_data);
size_t insn_size(const struct insn *insn) QEMU(insn_size);
uint64_t insn_vaddr(const struct insn *insn) QEMU(insn_vaddr);

unsigned int memory_size_shift(uint32_t info) QEMU(mem_size_shift);
bool memory_is_store(uint32_t info) QEMU(mem_is_store);
struct hwaddr *memory_hwaddr(uint32_t info, uint64_t vaddr) QEMU(get_hwaddr);
bool hwaddr_is_io(const struct hwaddr *hwaddr) QEMU(hwaddr_is_io);
uint64_t hwaddr_phys(const struct hwaddr *hwaddr) QEMU(hwaddr_phys_addr);

struct g_array *plugin_registers(void) QEMU(get_registers);
int plugin_read_register(struct plugin_register *handle, struct g_byte_array *to)
	QEMU(read_register);
bool plugin_read_memory(uint64_t vaddr, struct g_byte_array *to, size_t length)
	QEMU(read_memory_vaddr);

/* Not of the interface. */
extern __thread void *current_cpu __attribute__((tls_model("initial-exec")));
void *qemu_get_cpu(int index);
void cpu_exit(void *cpu);

#endif
