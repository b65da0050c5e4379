# SPDX-License-Identifier: GPL-2.0
#
# mqfair: I/O schedulers for fast multi-queue storage, as modules for stock kernels
#
# This file is for people; kbuild reads Kbuild. KDIR is the build directory, or the headers package,
# of the kernel to build for.

KDIR ?= /lib/modules/$(shell uname -r)/build
# Install the modules below this folder; the default is the system's own /lib/modules.
INSTALL_MOD_PATH ?=
V ?= 0
NAME ?=
SEEDS ?=
KSRC ?=
ARGS ?=

Q := $(if $(filter 1,$(V)),,@)
release = $(file <$(KDIR)/include/config/kernel.release)
version = $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"$$/\1/p' dkms.conf)
has_kunit = $(shell grep -s '^CONFIG_KUNIT=[ym]' $(KDIR)/include/config/auto.conf)

# What to build, as Kconfig symbols: all that is here, and the unit tests if the kernel has KUnit.
config = $(if $(wildcard lib/Kbuild),CONFIG_MQFAIR_LIB=m) \
	$(if $(wildcard mq-mqfq/Kbuild),CONFIG_MQ_IOSCHED_MQFQ=m) \
	$(if $(wildcard mq-k2/Kbuild),CONFIG_MQ_IOSCHED_K2=m) \
	$(if $(wildcard mq-tabs/Kbuild),CONFIG_MQ_IOSCHED_TABS=m) \
	$(if $(wildcard mq-octofas/Kbuild),CONFIG_MQ_IOSCHED_OCTOFAS=m) \
	$(if $(wildcard tools/ssdsim/Kbuild),CONFIG_BLK_DEV_SSDSIM=m) \
	$(if $(wildcard kunit/Kbuild),$(if $(has_kunit),CONFIG_MQFAIR_KUNIT_TEST=m))
# A kernel that clang built wants its modules from clang; with lld, from all of LLVM. Who says CC or
# LLVM knows better.
says = $(shell grep -s '^$(1)=y' $(KDIR)/include/config/auto.conf)
by_clang = $(and $(filter default,$(origin CC)),$(call says,CONFIG_CC_IS_CLANG))
compiler = $(if $(LLVM),,$(if $(by_clang),$(if $(call says,CONFIG_LD_IS_LLD),LLVM=1,CC=clang)))
kbuild = +$(Q)$(MAKE) -C $(KDIR) M=$(CURDIR) V=$(V) $(compiler)

# A headers package lacks the key that its configuration wants modules signed with: do not sign.
unsigned = $(if $(wildcard $(KDIR)/certs/signing_key.pem),,CONFIG_MODULE_SIG_ALL=)

.DEFAULT_GOAL := modules
.PHONY: modules clean install preflight layout mutants check selftest test test-long bench demo \
	results-check simulate fuzz lab dist deb docs graft help

modules: preflight
	$(kbuild) $(config) modules

preflight:
	$(if $(word 2,$(CURDIR)),$(error kbuild needs a path without a space: $(CURDIR)))
	$(Q)sh compat/preflight $(KDIR)

clean:
	$(kbuild) $(config) clean

install: modules
	$(kbuild) $(config) $(unsigned) modules_install \
		$(if $(INSTALL_MOD_PATH),INSTALL_MOD_PATH=$(INSTALL_MOD_PATH))
	$(Q)depmod -a $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) $(release)

layout: preflight
	$(kbuild) modules
	@echo "layout: all declarations in compat/ agree with $(release)"

mutants: preflight
	$(Q)tools/check/layout_mutants $(KDIR)

check:
	$(Q)tools/check/run --kdir $(KDIR) $(ARGS)

selftest:
	$(Q)KDIR=$(KDIR) tools/check/selftest

test:
	$(Q)tools/test/run $(ARGS)

test-long:
	$(Q)tools/test/run --long $(ARGS)

bench:
	$(Q)tools/bench/bench $(NAME) $(ARGS)

results-check:
	$(Q)tools/bench/results_check

demo:
	$(Q)tools/bench/demo/demo $(ARGS)

simulate:
	$(Q)tools/lab/lab enter -- nice make -s -C tools/octokv simulate SEEDS=$(SEEDS)

fuzz:
	$(Q)tools/lab/lab enter -- nice make -s -C tools/octokv fuzz fuzz-disk \
		FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600)

lab:
	$(Q)tools/lab/lab setup $(ARGS)

docs:
	$(Q)tools/lab/lab enter -- sphinx-build -q -W --keep-going -b html \
		-d results/docs/.doctrees Documentation results/docs
	@echo 'docs: results/docs/index.html'

dist:
	$(Q)tools/package/make-dist results/dist

deb: dist
	$(Q)tools/lab/lab enter -- tools/package/make-deb \
		results/dist/mqfair-$(version).tar.gz results/deb

graft:
	$(Q)tools/package/graft $(KSRC)

help:
	@echo 'Build (KDIR=DIR: the kernel to build for, default: the running one; V=1: verbose)'
	@echo '  make               compare the layouts with the kernel, then build the modules'
	@echo '  make install       install them (INSTALL_MOD_PATH=DIR: below DIR), run depmod'
	@echo '  make clean         remove what the build left'
	@echo '  make layout        only compare the layouts'
	@echo '  make docs          the manual as HTML, in results/docs'
	@echo '  make dist          the sources as a tarball in results/dist'
	@echo '  make deb           Debian packages in results/deb: modules for DKMS, the tools'
	@echo '  make graft         put the sources into the kernel tree KSRC=DIR, as block/mqfair'
	@echo 'Check'
	@echo '  make check         style and consistency (ARGS=RULE: one rule)'
	@echo '  make selftest      test the rules: each must find the faults that it is for'
	@echo '  make mutants       alter each declared layout: the check must stop the build'
	@echo '  make test          all tests, in the lab; ends with a count of passed and failed'
	@echo '  make test-long     the same with soaks and long stress'
	@echo '  make simulate      the key-value store on a simulated device, SEEDS=N lives'
	@echo '                     (20000); prints the seed that fails'
	@echo '  make fuzz          libFuzzer on the protocol and on the device format,'
	@echo '                     FUZZ_SECONDS=N (600) each'
	@echo 'See'
	@echo '  make demo          a noisy neighbour and a real-time reader, with and without us:'
	@echo '                     tables and pictures'
	@echo '  make bench NAME=X  a benchmark; NAME=list names them'
	@echo '  make results-check which stored results are older than the code that they measure'
	@echo '  make lab           make the guests that test, bench and demo run in'
