//go:build echo4
// +build echo4

package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// with returns a handler that knows its route.
func with(handle func(http.ResponseWriter, string)) echo.HandlerFunc {
	return func(c echo.Context) error {
		handle(c.Response(), c.Path())
		return nil
	}
}

// recovering is a middleware that recovers from panics.
func recovering(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer func() {
			recover()
			c.Response().WriteHeader(500)
		}()
		return next(c)
	}
}

func router() http.Handler {
	r := echo.New()
	r.GET("/hello", with(answer))
	r.GET("/items/:id", with(answer))
	r.GET("/files/*", with(answer))
	r.Group("/api").Group("/v1").GET("/users/:id", with(answer))
	second := echo.New()
	second.GET("/deep/:id", with(answer))
	r.Any("/deep/*", echo.WrapHandler(second))
	r.Any("/inner/*", echo.WrapHandler(inner()))
	r.GET("/spawn/:id", with(spawn))
	r.GET("/panic", func(echo.Context) error { panic(http.ErrAbortHandler) })
	r.GET("/recovered", func(echo.Context) error { panic("recovered") }, recovering)
	return r
}
