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

/* What a byte adds to the sum: what its bits add, from the lowest one on. */
#define OF(n, b0, b1, b2, b3, b4, b5, b6, b7) \
	(((n) & 1 ? b0 : 0) ^ ((n) & 2 ? b1 : 0) ^ ((n) & 4 ? b2 : 0) ^ ((n) & 8 ? b3 : 0) ^ \
	 ((n) & 16 ? b4 : 0) ^ ((n) & 32 ? b5 : 0) ^ ((n) & 64 ? b6 : 0) ^ ((n) & 128 ? b7 : 0))
#define OF_4(n, ...) OF(n, __VA_ARGS__), OF((n) + 1, __VA_ARGS__), OF((n) + 2, __VA_ARGS__), \
	OF((n) + 3, __VA_ARGS__)
#define OF_16(n, ...) OF_4(n, __VA_ARGS__), OF_4((n) + 4, __VA_ARGS__), \
	OF_4((n) + 8, __VA_ARGS__), OF_4((n) + 12, __VA_ARGS__)
#define OF_64(n, ...) OF_16(n, __VA_ARGS__), OF_16((n) + 16, __VA_ARGS__), \
	OF_16((n) + 32, __VA_ARGS__), OF_16((n) + 48, __VA_ARGS__)
#define OF_ALL(...) { OF_64(0, __VA_ARGS__), OF_64(64, __VA_ARGS__), OF_64(128, __VA_ARGS__), \
	OF_64(192, __VA_ARGS__) }

/*
 * By the number of bytes that come behind it, seven at most. So eight bytes are taken in one step:
 * what they add does not depend on one another. A bit adds the polynomial, once doubled, modulo
 * itself, for each bit that comes behind.
 */
static const uint16_t crc_of[8][256] = {
	OF_ALL(0x1021, 0x2042, 0x4084, 0x8108, 0x1231, 0x2462, 0x48c4, 0x9188),
	OF_ALL(0x3331, 0x6662, 0xccc4, 0x89a9, 0x0373, 0x06e6, 0x0dcc, 0x1b98),
	OF_ALL(0x3730, 0x6e60, 0xdcc0, 0xa9a1, 0x4363, 0x86c6, 0x1dad, 0x3b5a),
	OF_ALL(0x76b4, 0xed68, 0xcaf1, 0x85c3, 0x1ba7, 0x374e, 0x6e9c, 0xdd38),
	OF_ALL(0xaa51, 0x4483, 0x8906, 0x022d, 0x045a, 0x08b4, 0x1168, 0x22d0),
	OF_ALL(0x45a0, 0x8b40, 0x06a1, 0x0d42, 0x1a84, 0x3508, 0x6a10, 0xd420),
	OF_ALL(0xb861, 0x60e3, 0xc1c6, 0x93ad, 0x377b, 0x6ef6, 0xddec, 0xabf9),
	OF_ALL(0x47d3, 0x8fa6, 0x0f6d, 0x1eda, 0x3db4, 0x7b68, 0xf6d0, 0xfd81),
};

static uint16_t crc(const uint8_t *data, size_t len)
{
	uint16_t sum = 0;

	for (; len >= 8; len -= 8, data += 8)
		sum = crc_of[7][sum >> 8 ^ data[0]] ^ crc_of[6][(sum & 0xff) ^ data[1]] ^
		      crc_of[5][data[2]] ^ crc_of[4][data[3]] ^ crc_of[3][data[4]] ^
		      crc_of[2][data[5]] ^ crc_of[1][data[6]] ^ crc_of[0][data[7]];
	for (size_t i = 0; i < len; i++)
		sum = sum << 8 ^ crc_of[0][sum >> 8 ^ data[i]];
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
