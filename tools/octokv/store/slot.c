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

/* What four bits at the upper end of a sum add to it. */
static const uint16_t crc_of[16] = {
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
};

static uint16_t crc(const uint8_t *data, size_t len)
{
	uint16_t sum = 0;

	for (size_t i = 0; i < len; i++) {
		sum = sum << 4 ^ crc_of[sum >> 12 ^ data[i] >> 4];
		sum = sum << 4 ^ crc_of[sum >> 12 ^ (data[i] & 15)];
	}
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
