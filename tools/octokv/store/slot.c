// SPDX-License-Identifier: GPL-2.0
/*
 * slot.c - the slot of a key, by the rule of Redis Cluster
 *
 * It is the CRC-16 of the key (polynomial 0x1021, from 0: CRC-16/XMODEM), modulo the number of
 * slots. If the key has a tag, a text in braces, only that counts: the text between the first { and
 * the next }, unless there is nothing. So keys with one tag are in one slot.
 */
#include <string.h>

#include "store.h"

/* What a byte at the upper end of a sum adds to it: what its bits add. */
#define OF(n) (((n) & 1 ? 0x1021 : 0) ^ ((n) & 2 ? 0x2042 : 0) ^ ((n) & 4 ? 0x4084 : 0) ^ \
	       ((n) & 8 ? 0x8108 : 0) ^ ((n) & 16 ? 0x1231 : 0) ^ ((n) & 32 ? 0x2462 : 0) ^ \
	       ((n) & 64 ? 0x48c4 : 0) ^ ((n) & 128 ? 0x9188 : 0))
#define OF_4(n) OF(n), OF((n) + 1), OF((n) + 2), OF((n) + 3)
#define OF_16(n) OF_4(n), OF_4((n) + 4), OF_4((n) + 8), OF_4((n) + 12)
#define OF_64(n) OF_16(n), OF_16((n) + 16), OF_16((n) + 32), OF_16((n) + 48)

static const uint16_t crc_of[256] = { OF_64(0), OF_64(64), OF_64(128), OF_64(192) };

static uint16_t crc(const uint8_t *data, size_t len)
{
	uint16_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = sum << 8 ^ crc_of[sum >> 8 ^ data[i]];
	return sum;
}

uint32_t okv_slot(const void *key, size_t key_len)
{
	const uint8_t *end = (const uint8_t *)key + key_len, *open = memchr(key, '{', key_len);
	const uint8_t *close = open ? memchr(open + 1, '}', end - open - 1) : NULL;

	if (close && close > open + 1)
		return crc(open + 1, close - open - 1) % OKV_NR_SLOTS;
	return crc(key, key_len) % OKV_NR_SLOTS;
}
