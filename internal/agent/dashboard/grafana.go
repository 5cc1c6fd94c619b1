package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// object is an object of Grafana's dashboard format, which is documented by its schema (kinds/dashboard).
type object map[string]any

// Sizes of panels on Grafana's grid, which has 24 columns.
const (
	gridColumns  = 24
	defaultWidth = 8
	graphHeight  = 8
	statHeight   = 4
	tableHeight  = 8
	wholeHeight  = 14 // of a table that takes all columns
)

// source is the data source that the user selects at the top of a page.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// JSON returns the dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(object{
		"uid": d.UID, "title": d.Title, "description": d.About, "tags": []string{"loupe"},
		// Grafana migrates older schemas. This one is that of Grafana 10.4.
		"schemaVersion": 39, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":        object{"from": "now-1h", "to": "now"},
		"annotations": object{"list": []object{}},
		"templating":  object{"list": d.variables()},
		"links": []object{{"type": "dashboards", "title": "Loupe", "icon": "external link", "tooltip": "", "tags": []string{"loupe"},
			"asDropdown": true, "targetBlank": false, "includeVars": true, "keepTime": true}},
		"panels": d.panels(),
	})
	return b.Bytes(), err
}

func (d Dashboard) variables() []object {
	list := []object{{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1,
		"includeAll": false, "multi": false, "hide": 0}}
	for _, v := range d.Variables {
		query := fmt.Sprintf("label_values(%s, %s)", v.Of, v.From)
		o := object{"type": "query", "name": v.Name, "label": v.Label, "datasource": source, "hide": 0,
			"definition": query, "query": object{"query": query, "refId": v.Name},
			"refresh": 2 /* when the time range changes */, "sort": 1 /* by name */, "multi": !v.One, "includeAll": !v.One}
		if !v.One {
			// All values, and series without the label: outside of Kubernetes there are no namespaces.
			o["allValue"] = ".*"
			o["current"] = object{"text": []string{"All"}, "value": []string{"$__all"}}
		}
		list = append(list, o)
	}
	return list
}

// panels returns the panels of all rows, from left to right and from top to bottom.
func (d Dashboard) panels() []object {
	var list []object
	y, id := 0, 0
	for _, row := range d.Rows {
		id++
		list = append(list, object{"id": id, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": gridColumns, "h": 1}})
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			w, h := p.size()
			if x+w > gridColumns {
				x, y, height = 0, y+height, 0
			}
			id++
			o := p.object()
			o["id"], o["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
			list = append(list, o)
			x, height = x+w, max(height, h)
		}
		y += height
	}
	return list
}

func (p Panel) size() (w, h int) {
	w = p.Width
	if w == 0 {
		w = defaultWidth
	}
	switch {
	case p.Kind == Stat:
		return w, statHeight
	case p.Kind == Table && w == gridColumns:
		return w, wholeHeight
	case p.Kind == Table:
		return w, tableHeight
	}
	return w, graphHeight
}

func (p Panel) object() object {
	defaults := object{"unit": string(p.Unit), "min": 0}
	if p.Max != 0 {
		defaults["max"] = p.Max
	}
	o := object{"title": p.Title, "datasource": source, "targets": p.targets(), "fieldConfig": object{"defaults": defaults, "overrides": []object{}}}
	if p.About != "" {
		o["description"] = p.About
	}
	switch p.Kind {
	case Graph:
		o["type"] = "timeseries"
		stacking := "none"
		if p.Stacked {
			stacking = "normal"
		}
		defaults["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never",
			"stacking": object{"mode": stacking, "group": "A"}}
		o["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"}}
	case Stat:
		o["type"] = "stat"
		o["options"] = object{"graphMode": "area", "colorMode": "value", "justifyMode": "auto", "textMode": "auto", "wideLayout": true,
			"showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}
	case Heatmap:
		o["type"] = "heatmap"
		delete(defaults, "min")
		o["options"] = heatmapOptions(p.Unit)
	case Table:
		o["type"] = "table"
		delete(defaults, "min")
		o["options"] = object{"frameIndex": 0, "showHeader": true}
		o["transformations"] = p.columns()
		if p.Link != "" {
			defaults["links"] = []object{{"title": "Open this process", "targetBlank": false, "url": p.link()}}
		}
	}
	return o
}

func heatmapOptions(unit Unit) object {
	return object{
		"calculate": false, "cellGap": 1, "showValue": "never", "legend": object{"show": true},
		"color":     object{"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "exponent": 0.5, "steps": 64, "reverse": false},
		"yAxis":     object{"unit": string(unit), "axisPlacement": "left", "reverse": false},
		"rowsFrame": object{"layout": "auto"}, "exemplars": object{"color": "rgba(255,0,255,0.7)"},
		"tooltip": object{"mode": "single", "showColorScale": false, "yHistogram": true}, "filterValues": object{"le": 1e-9},
	}
}

func (p Panel) targets() []object {
	var list []object
	for i, q := range p.Queries {
		o := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": cmp.Or(q.Legend, "__auto"),
			"editorMode": "code", "range": true}
		switch p.Kind {
		case Heatmap:
			o["format"] = "heatmap"
		case Table:
			o["format"], o["instant"], o["range"] = "table", true, false
		case Graph, Stat:
			o["format"] = "time_series"
		}
		list = append(list, o)
	}
	return list
}

// columns returns the transformations that show the columns of a table, in their order.
func (p Panel) columns() []object {
	order := object{}
	for i, name := range p.Columns {
		order[name] = i
	}
	return []object{
		{"id": "filterFieldsByName", "options": object{"include": object{"names": p.Columns}}},
		{"id": "organize", "options": object{"indexByName": order, "excludeByName": object{}, "renameByName": object{}}},
	}
}

// link returns the address of a dashboard with the labels of the row as values of its variables. Grafana escapes them for the address.
func (p Panel) link() string {
	url := "/d/" + p.Link + "?${datasource:queryparam}"
	for _, name := range []string{"instance", "namespace", "pod", "process", "pid"} {
		url += fmt.Sprintf("&var-%s=${__data.fields.%s:percentencode}", name, name)
	}
	return url
}
