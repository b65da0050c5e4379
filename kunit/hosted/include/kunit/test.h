/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kunit/test.h - KUnit's interface in user space
 *
 * A suite written for KUnit is compiled as it is into a program that prints KTAP on standard output
 * and exits with 1 if a case failed, so that the same test source serves the kernel and the
 * sanitizers. Written for this build; what a suite uses and KUnit has belongs here. One program
 * holds one source file with one kunit_test_suites().
 *
 * As in the kernel, EXPECT notes a failure and goes on, ASSERT ends the case; what kunit_kzalloc()
 * gave is freed after the case.
 */
#ifndef HOSTED_KUNIT_TEST_H
#define HOSTED_KUNIT_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/gfp.h>
#include <linux/types.h>

#define KUNIT_PARAM_DESC_SIZE	128
#define HOSTED_NR_ALLOCATIONS	4096

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#endif

struct kunit {
	void *priv;
	const void *param_value;
	const char *name;
	bool failed;
	bool skipped;
	jmp_buf out;
	void *allocations[HOSTED_NR_ALLOCATIONS];
	unsigned int nr_allocations;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(struct kunit *test, const void *prev, char *desc);
};

struct kunit_suite {
	const char name[256];
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(test)		{ .run_case = test, .name = #test }
#define KUNIT_CASE_SLOW(test)		KUNIT_CASE(test)
#define KUNIT_CASE_PARAM(test, gen)	{ .run_case = test, .name = #test, .generate_params = gen }

#define KUNIT_ARRAY_PARAM(prefix, array, get_desc)						\
static const void *prefix##_gen_params(struct kunit *test, const void *prev, char *desc)	\
{												\
	__typeof__(&(array)[0]) next = prev ? (__typeof__(next))prev + 1 : &(array)[0];		\
	void (*describe)(__typeof__(next), char *) = get_desc;					\
												\
	(void)test;										\
	if (next >= &(array)[ARRAY_SIZE(array)])						\
		return NULL;									\
	if (describe)										\
		describe(next, desc);								\
	return next;										\
}

#define KUNIT_ARRAY_PARAM_DESC(prefix, array, member)				\
static void prefix##_describe(__typeof__(&(array)[0]) param, char *desc)	\
{										\
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s", param->member);		\
}										\
KUNIT_ARRAY_PARAM(prefix, array, prefix##_describe)

#define kunit_info(test, fmt, ...)	((void)(test), (void)printf("    # " fmt, ##__VA_ARGS__))
#define kunit_err(test, fmt, ...)	kunit_info(test, fmt, ##__VA_ARGS__)
#define kunit_warn(test, fmt, ...)	kunit_info(test, fmt, ##__VA_ARGS__)

#define kunit_skip(test, fmt, ...)				\
do {								\
	kunit_info(test, fmt "\n", ##__VA_ARGS__);		\
	(test)->skipped = true;					\
	longjmp((test)->out, 1);				\
} while (0)

static inline void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t gfp)
{
	void *p = hosted_zeroed(size);

	(void)gfp;
	if (!p || test->nr_allocations == HOSTED_NR_ALLOCATIONS)
		abort();
	test->allocations[test->nr_allocations++] = p;
	return p;
}

#define kunit_kmalloc(test, size, gfp)		kunit_kzalloc(test, size, gfp)
#define kunit_kcalloc(test, n, size, gfp)	kunit_kzalloc(test, (size_t)(n) * (size), gfp)

__attribute__((format(printf, 5, 6)))
static inline void hosted_fail(struct kunit *test, bool leave, const char *file, int line,
			       const char *fmt, ...)
{
	va_list args;

	printf("    # %s: FAILED at %s:%d: ", test->name, file, line);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	test->failed = true;
	if (leave)
		longjmp(test->out, 1);
}

#define HOSTED_CHECK(test, leave, condition, what, fmt, ...)					\
do {												\
	if (!(condition))									\
		hosted_fail(test, leave, __FILE__, __LINE__, "%s" fmt, what, ##__VA_ARGS__);	\
} while (0)

#define HOSTED_COMPARE(test, leave, left, op, right, fmt, ...)					\
do {												\
	__typeof__(left) left_value = (left);							\
	__typeof__(right) right_value = (right);						\
												\
	if (!(left_value op right_value))							\
		hosted_fail(test, leave, __FILE__, __LINE__,					\
			    "%s " #op " %s, but they are %lld and %lld. " fmt, #left, #right,	\
			    (long long)left_value, (long long)right_value, ##__VA_ARGS__);	\
} while (0)

#define KUNIT_FAIL(test, fmt, ...) \
	hosted_fail(test, false, __FILE__, __LINE__, fmt, ##__VA_ARGS__)

#define KUNIT_EXPECT_TRUE(test, c)		HOSTED_CHECK(test, false, c, #c, "")
#define KUNIT_EXPECT_FALSE(test, c)		HOSTED_CHECK(test, false, !(c), "!(" #c ")", "")
#define KUNIT_EXPECT_TRUE_MSG(test, c, fmt, ...) \
	HOSTED_CHECK(test, false, c, #c ": ", fmt, ##__VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, c, fmt, ...) \
	HOSTED_CHECK(test, false, !(c), "!(" #c "): ", fmt, ##__VA_ARGS__)
#define KUNIT_EXPECT_NULL(test, p)		HOSTED_CHECK(test, false, !(p), #p " is NULL", "")
#define KUNIT_EXPECT_NOT_NULL(test, p)		HOSTED_CHECK(test, false, p, #p " is not NULL", "")
#define KUNIT_EXPECT_PTR_EQ(test, l, r) \
	HOSTED_CHECK(test, false, (l) == (r), #l " == " #r, "")
#define KUNIT_EXPECT_PTR_NE(test, l, r) \
	HOSTED_CHECK(test, false, (l) != (r), #l " != " #r, "")
#define KUNIT_EXPECT_STREQ(test, l, r) \
	HOSTED_CHECK(test, false, !strcmp(l, r), #l " equals " #r, "")
#define KUNIT_EXPECT_MEMEQ(test, l, r, n) \
	HOSTED_CHECK(test, false, !memcmp(l, r, n), #l " equals " #r, "")
#define KUNIT_EXPECT_EQ(test, l, r)		HOSTED_COMPARE(test, false, l, ==, r, "")
#define KUNIT_EXPECT_NE(test, l, r)		HOSTED_COMPARE(test, false, l, !=, r, "")
#define KUNIT_EXPECT_LT(test, l, r)		HOSTED_COMPARE(test, false, l, <, r, "")
#define KUNIT_EXPECT_LE(test, l, r)		HOSTED_COMPARE(test, false, l, <=, r, "")
#define KUNIT_EXPECT_GT(test, l, r)		HOSTED_COMPARE(test, false, l, >, r, "")
#define KUNIT_EXPECT_GE(test, l, r)		HOSTED_COMPARE(test, false, l, >=, r, "")
#define KUNIT_EXPECT_EQ_MSG(test, l, r, fmt, ...) \
	HOSTED_COMPARE(test, false, l, ==, r, fmt, ##__VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(test, l, r, fmt, ...) \
	HOSTED_COMPARE(test, false, l, <=, r, fmt, ##__VA_ARGS__)
#define KUNIT_EXPECT_GE_MSG(test, l, r, fmt, ...) \
	HOSTED_COMPARE(test, false, l, >=, r, fmt, ##__VA_ARGS__)

#define KUNIT_ASSERT_TRUE(test, c)		HOSTED_CHECK(test, true, c, #c, "")
#define KUNIT_ASSERT_FALSE(test, c)		HOSTED_CHECK(test, true, !(c), "!(" #c ")", "")
#define KUNIT_ASSERT_TRUE_MSG(test, c, fmt, ...) \
	HOSTED_CHECK(test, true, c, #c ": ", fmt, ##__VA_ARGS__)
#define KUNIT_ASSERT_FALSE_MSG(test, c, fmt, ...) \
	HOSTED_CHECK(test, true, !(c), "!(" #c "): ", fmt, ##__VA_ARGS__)
#define KUNIT_ASSERT_NOT_NULL(test, p)		HOSTED_CHECK(test, true, p, #p " is not NULL", "")
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p)	KUNIT_ASSERT_NOT_NULL(test, p)
#define KUNIT_ASSERT_PTR_EQ(test, l, r) \
	HOSTED_CHECK(test, true, (l) == (r), #l " == " #r, "")
#define KUNIT_ASSERT_EQ(test, l, r)		HOSTED_COMPARE(test, true, l, ==, r, "")
#define KUNIT_ASSERT_NE(test, l, r)		HOSTED_COMPARE(test, true, l, !=, r, "")
#define KUNIT_ASSERT_LT(test, l, r)		HOSTED_COMPARE(test, true, l, <, r, "")
#define KUNIT_ASSERT_LE(test, l, r)		HOSTED_COMPARE(test, true, l, <=, r, "")
#define KUNIT_ASSERT_GT(test, l, r)		HOSTED_COMPARE(test, true, l, >, r, "")
#define KUNIT_ASSERT_GE(test, l, r)		HOSTED_COMPARE(test, true, l, >=, r, "")
#define KUNIT_ASSERT_EQ_MSG(test, l, r, fmt, ...) \
	HOSTED_COMPARE(test, true, l, ==, r, fmt, ##__VA_ARGS__)

/* One run of one case, with one parameter or none. */
static inline bool hosted_run(struct kunit_suite *suite, struct kunit *test,
			      void (*run)(struct kunit *))
{
	test->failed = false;
	test->skipped = false;
	test->priv = NULL;
	if (!setjmp(test->out)) {
		if (suite->init && suite->init(test))
			hosted_fail(test, true, __FILE__, __LINE__, "the suite's init failed");
		run(test);
	}
	if (suite->exit)
		suite->exit(test);
	while (test->nr_allocations)
		free(test->allocations[--test->nr_allocations]);
	return !test->failed;
}

static inline bool hosted_run_case(struct kunit_suite *suite, struct kunit_case *c,
				   struct kunit *test)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	unsigned int n = 0;
	bool ok = true;

	test->name = c->name;
	test->param_value = NULL;
	if (!c->generate_params)
		return hosted_run(suite, test, c->run_case);

	printf("        KTAP version 1\n        # Subtest: %s\n", c->name);
	while ((test->param_value = c->generate_params(test, test->param_value, desc))) {
		bool this_ok = hosted_run(suite, test, c->run_case);

		printf("        %sok %u %s\n", this_ok ? "" : "not ", ++n, desc);
		ok &= this_ok;
	}
	return ok;
}

static inline bool hosted_run_suite(struct kunit_suite *suite, unsigned int index)
{
	static struct kunit test;
	struct kunit_case *c;
	unsigned int n = 0;
	bool ok = true;

	printf("    KTAP version 1\n    # Subtest: %s\n", suite->name);
	for (c = suite->test_cases; c->run_case; c++)
		n++;
	printf("    1..%u\n", n);
	if (suite->suite_init && suite->suite_init(suite))
		ok = false;
	for (n = 0, c = suite->test_cases; c->run_case; c++) {
		bool this_ok = hosted_run_case(suite, c, &test);

		printf("    %sok %u %s%s\n", this_ok ? "" : "not ", ++n, c->name,
		       test.skipped ? " # SKIP" : "");
		ok &= this_ok;
	}
	if (suite->suite_exit)
		suite->suite_exit(suite);
	printf("%sok %u %s\n", ok ? "" : "not ", index, suite->name);
	return ok;
}

#define kunit_test_suites(...)					\
int main(void)							\
{								\
	struct kunit_suite *suites[] = { __VA_ARGS__ };		\
	bool ok = true;						\
	unsigned int i;						\
								\
	setvbuf(stdout, NULL, _IOLBF, 0);			\
	printf("KTAP version 1\n1..%zu\n", ARRAY_SIZE(suites));	\
	for (i = 0; i < ARRAY_SIZE(suites); i++)		\
		ok &= hosted_run_suite(suites[i], i + 1);	\
	return !ok;						\
}

#define kunit_test_suite(suite)	kunit_test_suites(&suite)

#endif
