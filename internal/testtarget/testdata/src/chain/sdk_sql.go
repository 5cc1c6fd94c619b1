//go:build sdk && sql

package main

import (
	"database/sql"
	"database/sql/driver"

	"github.com/XSAM/otelsql"
	"go.opentelemetry.io/otel/attribute"
)

func openDB(c driver.Connector) *sql.DB {
	return otelsql.OpenDB(c, otelsql.WithAttributes(attribute.String("db.system.name", "other_sql")))
}
