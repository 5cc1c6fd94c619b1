package layout
import ("testing";"strings";"path/filepath";"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted")
func TestZZAll(t *testing.T){
 _ = wanted.Structs
 for _,v:=range Versions(){
  g,_:=filepath.Glob("/root/go/pkg/mod/golang.org/toolchain@v0.0.1-"+v+".linux-amd64")
  if len(g)==0 { continue }
  for _,a:=range arches { l,_:=ForVersion(v,a); t.Run(v+a,func(t *testing.T){ n:=compareWithSource(t,l,g[0]); t.Log(strings.TrimSpace(v),a,n)}) }
 }
}
