// Package routes sums up spans by operation: for servers, the route.
//
// The central type is [Table].
package routes
