//go:build !shopify

package main

import "github.com/IBM/sarama"

type (
	settings      = sarama.Config
	header        = sarama.RecordHeader
	message       = sarama.ProducerMessage
	syncProducer  = sarama.SyncProducer
	asyncProducer = sarama.AsyncProducer
	stringEncoder = sarama.StringEncoder
	byteEncoder   = sarama.ByteEncoder
	received      = sarama.ConsumerMessage
	groupSession  = sarama.ConsumerGroupSession
	groupClaim    = sarama.ConsumerGroupClaim
	groupHandler  = sarama.ConsumerGroupHandler
)

var version = sarama.V0_11_0_0

func newConfig() *settings { return sarama.NewConfig() }

func newSyncProducer(brokers []string, c *settings) (syncProducer, error) {
	return sarama.NewSyncProducer(brokers, c)
}

func newAsyncProducer(brokers []string, c *settings) (asyncProducer, error) {
	return sarama.NewAsyncProducer(brokers, c)
}

const oldestOffset = sarama.OffsetOldest

func newConsumerGroup(brokers []string, name string, c *settings) (sarama.ConsumerGroup, error) {
	return sarama.NewConsumerGroup(brokers, name, c)
}

func newConsumer(brokers []string, c *settings) (sarama.Consumer, error) {
	return sarama.NewConsumer(brokers, c)
}
