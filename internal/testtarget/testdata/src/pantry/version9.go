//go:build !redis8

package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

type (
	options     = redis.Options
	redisClient = redis.Client
	cmder       = redis.Cmder
	pipeliner   = redis.Pipeliner
	transaction = *redis.Tx
)

const missing = redis.Nil

func newClient(o *redis.Options) *redis.Client { return redis.NewClient(o) }

func newCmd(ctx context.Context, args ...interface{}) cmder { return redis.NewCmd(ctx, args...) }

func connOf(c *redis.Client) client { return c.Conn() }

// newCluster returns a client of a cluster.
func newCluster(addr string) client {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
}

// newStale returns a client of a cluster that believes that one node has all slots.
func newStale(addr string) client {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
}

func newRing(addrs ...string) client {
	shards := map[string]string{}
	for _, a := range addrs {
		shards[a] = a
	}
	return redis.NewRing(&redis.RingOptions{Addrs: shards})
}

func newFailover(sentinel string) client {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel}})
}

func watch(ctx context.Context, c client, f func(transaction) error, key string) error {
	return c.(interface {
		Watch(context.Context, func(*redis.Tx) error, ...string) error
	}).Watch(ctx, f, key)
}

// subscribe receives a message that it publishes.
func subscribe(ctx context.Context, c client, channel string) error {
	s := c.(*redis.Client).Subscribe(ctx, channel)
	defer s.Close()
	if _, err := s.Receive(ctx); err != nil {
		return err
	}
	if err := c.Process(ctx, newCmd(ctx, "publish", channel, "message")); err != nil {
		return err
	}
	_, err := s.ReceiveMessage(ctx)
	return err
}
