//go:build !mongo1

package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

type (
	client   = mongo.Client
	document = bson.D
	raw      = bson.Raw
)

var marshal = bson.Marshal

func connect(uri string, selection time.Duration) (*client, error) {
	return mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(selection))
}

func unacknowledged(db *mongo.Database, name string) *mongo.Collection {
	return db.Collection(name, options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
}

// find returns the number of documents of a collection.
func find(ctx context.Context, on *mongo.Collection) (int, error) {
	cursor, err := on.Find(ctx, document{}, options.Find().SetBatchSize(2))
	if err != nil {
		return 0, err
	}
	var all []document
	err = cursor.All(ctx, &all)
	return len(all), err
}
