//go:build !kafka0.4.1

package main

import "github.com/segmentio/kafka-go"

func (c *courier) mixed(topics ...string) string {
	var list []kafka.Message
	for _, topic := range topics {
		list = append(list, kafka.Message{Topic: topic, Value: []byte("value")})
	}
	return result(c.write("", list...))
}
