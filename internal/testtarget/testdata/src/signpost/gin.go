//go:build gin
// +build gin

package main

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// with returns a handler that knows its route.
func with(handle func(http.ResponseWriter, string)) gin.HandlerFunc {
	return func(c *gin.Context) { handle(c.Writer, c.FullPath()) }
}

func router() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultErrorWriter = io.Discard
	r := gin.New()
	recovery := gin.Recovery()
	r.Use(func(c *gin.Context) {
		if c.Request.URL.Path == "/recovered" {
			recovery(c)
		}
	})
	r.GET("/hello", with(answer))
	r.GET("/items/:id", with(answer))
	r.GET("/files/*path", with(answer))
	r.Group("/api").Group("/v1").GET("/users/:id", with(answer))
	second := gin.New()
	second.GET("/deep/:id", with(answer))
	r.Any("/deep/*path", gin.WrapH(second))
	r.Any("/inner/*path", gin.WrapH(inner()))
	r.GET("/spawn/:id", with(spawn))
	r.GET("/panic", func(*gin.Context) { panic(http.ErrAbortHandler) })
	r.GET("/recovered", func(*gin.Context) { panic("recovered") })
	return r
}
