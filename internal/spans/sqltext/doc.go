// Package sqltext summarizes SQL statements as the semantic conventions of OpenTelemetry require: their operations and tables, and their
// text without literals. It does not validate them: any text has a summary, which may be empty.
//
// The central function is [Describe], which sets the name and the attributes of a span.
package sqltext
