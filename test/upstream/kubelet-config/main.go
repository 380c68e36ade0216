// Prints every field of KubeletConfiguration v1beta1 as a JSON object: the path as it is written in a file, and the Go
// type behind it. Lists of structs continue below "path[]".
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	"k8s.io/kubelet/config/v1beta1"
)

func main() {
	fields := map[string]string{}
	walk(reflect.TypeFor[v1beta1.KubeletConfiguration](), "", fields)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(fields); err != nil {
		panic(err)
	}
}

// Types with their own marshaller: their fields are not fields of the file.
var marshaler = reflect.TypeFor[json.Marshaler]()

func walk(structure reflect.Type, prefix string, fields map[string]string) {
	for i := range structure.NumField() {
		field := structure.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			walk(field.Type, prefix, fields)
			continue
		}
		path := prefix + name
		fields[path] = describe(field.Type)
		element, suffix := field.Type, "."
		if element.Kind() == reflect.Slice {
			element, suffix = element.Elem(), "[]."
		}
		if element.Kind() == reflect.Pointer {
			element = element.Elem()
		}
		if isPlainStruct(element) {
			walk(element, path+suffix, fields)
		}
	}
}

func isPlainStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(marshaler)
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + describe(t.Elem())
	case reflect.Slice:
		return "[]" + describe(t.Elem())
	case reflect.Map:
		return "map[" + describe(t.Key()) + "]" + describe(t.Elem())
	case reflect.Struct:
		if isPlainStruct(t) {
			return "struct"
		}
		return t.Name()
	default:
		return t.Kind().String()
	}
}
