// Command apiserver is the API server of Kubernetes, for tests. Package testkube builds it from this module, which requires the
// server's source code. The module is separate because it requires hundreds of others.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
