// SPDX-License-Identifier: GPL-2.0
/* clock.c - a clock that jumps to next year is not believed, one that is slewed or set back is */
#include "server/clock.h"
#include "test/test.h"

static const uint64_t year_ms = 31536000000, begin_ms = 1700000000000;

int main(void)
{
	struct clock_guard g = { 0 };

	EXPECT(clock_guard(&g, begin_ms, 50) == begin_ms);
	EXPECT(clock_guard(&g, begin_ms + 100, 149) == begin_ms + 100 && !g.jumped);
	EXPECT(clock_guard(&g, begin_ms + 3000000, 200) == begin_ms + 3000000);
	EXPECT(clock_guard(&g, begin_ms + year_ms, 300) == begin_ms + 3000100 && g.jumped);
	EXPECT(clock_guard(&g, begin_ms + year_ms + 100, 400) == begin_ms + 3000200 && g.jumped);
	EXPECT(clock_guard(&g, begin_ms + 3000000, 500) == begin_ms + 3000000 && !g.jumped);
	EXPECT(clock_guard(&g, begin_ms - year_ms, 600) == begin_ms - year_ms);
	/* The machine slept. */
	EXPECT(clock_guard(&g, begin_ms, 600 + year_ms) == begin_ms && !g.jumped);
	g = (struct clock_guard){ 0 };
	EXPECT(clock_guard(&g, begin_ms + year_ms, 700 + year_ms) == begin_ms + year_ms);
	puts("ok server_clock: a jump of more than an hour does not count");
	return 0;
}
