// SPDX-License-Identifier: GPL-2.0

// redisc NODE SLOTS COMMAND... - octokvd's cluster as a client in Go sees it, while slots move
//
// COMMAND moves the first SLOTS slots. Meanwhile clients use counters in all slots, and each slot
// that moves has a tag, whose counters transactions use together. A counter belongs to one client,
// which so knows each answer. All values are read again at the end. The library redisc follows
// redirections; those of a transaction it leaves to its caller. Prints a line of figures. The exit
// status is 1 if an answer was wrong, COMMAND failed, or no redirection was met.
package main

import (
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

const (
	nrClients = 4
	nrKeys    = 3000
	nrTagged  = 4 // keys of a tag
	// An old map, ASK, and an old map that another connection was told meanwhile.
	nrRedirections = 5
	nrPausesMax    = 1000
	pause          = 10 * time.Millisecond // after TRYAGAIN
	timeout        = 60 * time.Second
)

var nrMoved, nrAsks, nrCommands, nrTransactions atomic.Int64

// counting is a connection to one node.
type counting struct{ redis.Conn }

func (c counting) Do(name string, args ...interface{}) (interface{}, error) {
	reply, err := c.Conn.Do(name, args...)
	if to := redisc.ParseRedir(err); to != nil && to.Type == "ASK" {
		nrAsks.Add(1)
	} else if to != nil {
		nrMoved.Add(1)
	}
	return reply, err
}

func dial(address string) (redis.Conn, error) {
	conn, err := redis.Dial("tcp", address, redis.DialConnectTimeout(timeout),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
	return counting{conn}, err
}

func pool(address string, _ ...redis.DialOption) (*redis.Pool, error) {
	return &redis.Pool{
		MaxIdle: nrClients,
		Dial:    func() (redis.Conn, error) { return dial(address) },
	}, nil
}

type client struct {
	cluster *redisc.Cluster
	random  *rand.Rand
	keys    []string         // used one by one
	tags    []string         // of keys that are used together
	values  map[string]int64 // of all keys
}

func tagged(tag string, i int) string { return fmt.Sprintf("%s%d", tag, i) }

func (c *client) do(name string, args ...interface{}) (interface{}, error) {
	conn := c.cluster.Get()
	defer conn.Close()
	follows, err := redisc.RetryConn(conn, nrRedirections+1, pause)
	if err != nil {
		return nil, err
	}
	nrCommands.Add(1)
	return follows.Do(name, args...)
}

func (c *client) set(key string, value int64) {
	if reply, err := redis.String(c.do("SET", key, value)); err != nil || reply != "OK" {
		log.Fatalf("SET %s: %q, %v", key, reply, err)
	}
	c.values[key] = value
}

func (c *client) incr(key string) {
	c.values[key]++
	if got, err := redis.Int64(c.do("INCR", key)); err != nil || got != c.values[key] {
		log.Fatalf("INCR %s: %d instead of %d, %v", key, got, c.values[key], err)
	}
}

func (c *client) check(key string) {
	if got, err := redis.Int64(c.do("GET", key)); err != nil || got != c.values[key] {
		log.Fatalf("GET %s: %d instead of %d, %v", key, got, c.values[key], err)
	}
}

// exec counts all keys of the tag in one transaction, at the node that ASK has named, if it has.
func (c *client) exec(tag string, asked *redisc.RedirError) error {
	var conn redis.Conn
	var err error
	if asked != nil {
		if conn, err = dial(asked.Addr); err == nil {
			err = conn.Send("ASKING")
		}
	} else {
		conn = c.cluster.Get()
		err = redisc.BindConn(conn, tag)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Send("MULTI")
	for i := 0; i < nrTagged; i++ {
		conn.Send("INCR", tagged(tag, i))
	}
	// The first error of all these is that of Do.
	replies, err := redis.Int64s(conn.Do("EXEC"))
	if err != nil {
		return err
	}
	for i, got := range replies {
		key := tagged(tag, i)
		if c.values[key]++; got != c.values[key] {
			log.Fatalf("EXEC %s: %d instead of %d", key, got, c.values[key])
		}
	}
	return nil
}

func (c *client) transact(tag string) {
	var asked *redisc.RedirError
	for nrRedirected, nrPauses := 0, 0; ; {
		err := c.exec(tag, asked)
		to := redisc.ParseRedir(err)
		asked = nil
		switch {
		case err == nil:
			nrTransactions.Add(1)
			return
		case to != nil && nrRedirected < nrRedirections:
			nrRedirected++
			if to.Type == "ASK" {
				asked = to
			}
		case redisc.IsTryAgain(err) && nrPauses < nrPausesMax:
			nrPauses++
			time.Sleep(pause)
		default:
			log.Fatalf("MULTI, EXEC of %s: %d redirections, %v", tag, nrRedirected, err)
		}
	}
}

func (c *client) begin() {
	for _, key := range c.keys {
		c.set(key, 0)
	}
	for _, tag := range c.tags {
		c.transact(tag)
	}
}

func (c *client) use(over *atomic.Bool) {
	for !over.Load() {
		key := c.keys[c.random.Intn(len(c.keys))]
		c.check(key)
		c.set(key, c.random.Int63n(1<<40))
		c.incr(key)
		c.transact(c.tags[c.random.Intn(len(c.tags))])
	}
}

func (c *client) end() {
	for key := range c.values {
		c.check(key)
	}
}

// clients shares the keys out. There is a tag for each of the first @nrSlots slots.
func clients(cluster *redisc.Cluster, nrSlots int) []*client {
	all := make([]*client, nrClients)
	for i := range all {
		all[i] = &client{cluster: cluster, random: rand.New(rand.NewSource(int64(i))),
			values: map[string]int64{}}
	}
	for i := 0; i < nrKeys; i++ {
		c := all[i%nrClients]
		c.keys = append(c.keys, fmt.Sprintf("k%d", i))
	}
	has := map[int]bool{}
	for i := 0; len(has) < nrSlots; i++ {
		tag := fmt.Sprintf("{t%d}", i)
		if slot := redisc.Slot(tag); slot < nrSlots && !has[slot] {
			has[slot] = true
			c := all[len(has)%nrClients]
			c.tags = append(c.tags, tag)
		}
	}
	return all
}

// each runs a step of all clients side by side.
func each(all []*client, step func(*client)) *sync.WaitGroup {
	var wait sync.WaitGroup
	for _, c := range all {
		wait.Add(1)
		go func(c *client) {
			defer wait.Done()
			step(c)
		}(c)
	}
	return &wait
}

func main() {
	log.SetFlags(0)
	nrSlots, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	cluster := &redisc.Cluster{StartupNodes: os.Args[1:2], CreatePool: pool}
	if err := cluster.Refresh(); err != nil {
		log.Fatal(err)
	}
	all := clients(cluster, nrSlots)
	each(all, (*client).begin).Wait()
	var over atomic.Bool
	using := each(all, func(c *client) { c.use(&over) })
	said, err := exec.Command(os.Args[3], os.Args[4:]...).CombinedOutput()
	over.Store(true)
	using.Wait()
	if err != nil {
		log.Fatalf("%v: %s", err, said)
	}
	each(all, (*client).end).Wait()
	nrValues := 0
	for _, c := range all {
		nrValues += len(c.values)
	}
	fmt.Printf("%d values, %d commands, %d transactions, %d MOVED, %d ASK\n", nrValues,
		nrCommands.Load(), nrTransactions.Load(), nrMoved.Load(), nrAsks.Load())
	if nrMoved.Load()+nrAsks.Load() == 0 {
		log.Fatal("no redirection was met")
	}
}
