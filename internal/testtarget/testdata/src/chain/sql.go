//go:build !sql

package main

import (
	"database/sql"
	"database/sql/driver"
)

func openDB(c driver.Connector) *sql.DB { return sql.OpenDB(c) }
