# SPDX-License-Identifier: GPL-2.0
#
# The store alone: its simulator, its mutants, the fuzzing of what reads the device
#
#	make -C tools/octokv simulate SEEDS=N	N seeds (20000), as fast as it goes
#	make -C tools/octokv simulate-asan	the same under the address and undefined-behaviour
#						sanitizers, 300 seeds
#	make -C tools/octokv store-mutants	break the store on purpose; EVERY=4 tries only each
#						fourth mutant
#	make -C tools/octokv fuzz-disk		libFuzzer, FUZZ_SECONDS of processor time

# hash.c needs libsodium. The simulator draws its hashes, so that some collide.
SIMULATED := $(filter-out store/hash,$(STORE)) store/sim/sim_disk
SIMULATOR := $(SIMULATED) store/sim/model store/sim/sim

.PHONY: simulate simulate-asan store-mutants fuzz-disk

$(BUILD)/octokv-sim: $(addprefix $(BUILD)/plain/,$(SIMULATOR:=.o))
	$(CC) -o $@ $^ -lxxhash -llz4

$(BUILD)/octokv-sim-asan: $(addprefix $(BUILD)/asan/,$(SIMULATOR:=.o))
	$(CC) $(ASAN) -o $@ $^ -lxxhash -llz4

$(BUILD)/test/store/%: $(BUILD)/asan/test/store/%.o $(addprefix $(BUILD)/asan/,$(SIMULATED:=.o))
	@mkdir -p $(@D)
	$(CC) $(ASAN) -o $@ $^ -lxxhash -llz4

$(BUILD)/test/store/slots: $(addprefix $(BUILD)/asan/,test/store/slots.o store/hash.o \
		$(SIMULATED:=.o))
	@mkdir -p $(@D)
	$(CC) $(ASAN) -o $@ $^ -lxxhash -llz4 -lsodium

simulate: $(BUILD)/octokv-sim
	$< --seeds 1..$(or $(SEEDS),20000)

simulate-asan: $(BUILD)/octokv-sim-asan
	$< --seeds 1..$(or $(SEEDS),300)

store-mutants:
	../test/mutants --every $(or $(EVERY),1) test/store/mutants.table

$(BUILD)/fuzz_disk: fuzz/fuzz_disk.c $(SIMULATED:=.c) $(headers)
	@mkdir -p $(@D)
	clang -std=gnu17 -I. $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) -lxxhash -llz4

fuzz-disk: $(BUILD)/fuzz_disk
	@mkdir -p $(BUILD)/corpus-disk
	@fuzz/unpack fuzz/seeds/disk.hex $(BUILD)/seeds-disk
	$< -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -verbosity=0 -artifact_prefix=$(BUILD)/ \
		$(BUILD)/corpus-disk $(BUILD)/seeds-disk

# The speed of the store without a network: see the head of the file.
RATE_DEVICE := device/disk_uring.o device/fence.o
$(BUILD)/store_rate: $(addprefix $(BUILD)/plain/,test/store/rate.o $(RATE_DEVICE) $(STORE:=.o))
	$(CC) -o $@ $^ $(LDLIBS)
