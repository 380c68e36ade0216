package main

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	api "k8s.io/kubernetes/pkg/apis/core"
)

type table struct {
	Version string `json:"version"`
	// Each field as "GoName GoType jsonName", in Go's order. No JSON name: the struct is inlined, or JSON cannot set it.
	Structs map[string][]string `json:"structs"`
	// The underlying type of each named type that is no struct.
	Named map[string]string `json:"named"`
}

// The types whose JSON is not that of their fields.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[metav1.MicroTime]():   true,
	reflect.TypeFor[metav1.FieldsV1]():    true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

// The fields that v1 has elsewhere, by the JSON name with which the reader of this table has to hand them in.
var moved = map[string]string{
	"core.PodSecurityContext.HostNetwork":           "hostNetwork",
	"core.PodSecurityContext.HostPID":               "hostPID",
	"core.PodSecurityContext.HostIPC":               "hostIPC",
	"core.PodSecurityContext.ShareProcessNamespace": "shareProcessNamespace",
	"core.PodSecurityContext.HostUsers":             "hostUsers",
}

func tables() table {
	result := table{kubernetesVersion(), map[string][]string{}, map[string]string{}}
	add(result, reflect.TypeFor[api.Pod](), reflect.TypeFor[v1.Pod]())
	return result
}

func kubernetesVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	panic("k8s.io/kubernetes is not linked")
}

// Adds an internal type and its counterpart of v1, with all types that they refer to.
func add(result table, internal, external reflect.Type) {
	// Convert_Pointer_T_To_T: unset is zero.
	if external.Kind() == reflect.Pointer && internal.Kind() != reflect.Pointer {
		external = external.Elem()
	}
	if internal.Kind() != external.Kind() {
		panic(fmt.Errorf("%v is a %v, %v is a %v", internal, internal.Kind(), external, external.Kind()))
	}
	name := internal.String()
	switch internal.Kind() {
	case reflect.Pointer:
		if internal.Elem().Kind() == reflect.Struct && internal.Elem().Size() == 0 {
			panic(fmt.Errorf("%v: all pointers to an empty struct may be equal, which reads as a cycle", internal))
		}
		add(result, internal.Elem(), external.Elem())
	case reflect.Slice:
		nameOf(result, internal, "[]"+internal.Elem().String())
		addElement(result, internal, external)
	case reflect.Map:
		nameOf(result, internal, fmt.Sprintf("map[%v]%v", internal.Key(), internal.Elem()))
		nameOf(result, internal.Key(), "string")
		addElement(result, internal, external)
	case reflect.Struct:
		if opaque[internal] {
			return
		}
		if _, known := result.Structs[name]; known {
			return
		}
		result.Structs[name] = nil
		result.Structs[name] = fields(result, internal, external)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		nameOf(result, internal, internal.Kind().String())
	default:
		panic(fmt.Errorf("no rule for %v", internal))
	}
}

func addElement(result table, internal, external reflect.Type) {
	if kind := internal.Elem().Kind(); kind == reflect.Pointer || kind == reflect.Interface {
		panic(fmt.Errorf("no rule for the elements of %v", internal))
	}
	add(result, internal.Elem(), external.Elem())
}

func nameOf(result table, named reflect.Type, underlying string) {
	if named.PkgPath() != "" {
		result.Named[named.String()] = underlying
	}
}

func fields(result table, internal, external reflect.Type) []string {
	lines := []string{}
	for index := range internal.NumField() {
		field := internal.Field(index)
		path := internal.String() + "." + field.Name
		if json, isMoved := moved[path]; isMoved {
			add(result, field.Type, field.Type)
			lines = append(lines, line(field, json))
			continue
		}
		counterpart, exists := external.FieldByName(field.Name)
		if !exists {
			panic(fmt.Errorf("v1 has no field for %s", path))
		}
		json, _, _ := strings.Cut(counterpart.Tag.Get("json"), ",")
		if json == "" && !counterpart.Anonymous {
			panic(fmt.Errorf("%s has no JSON name", path))
		}
		add(result, field.Type, counterpart.Type)
		lines = append(lines, line(field, json))
	}
	for _, name := range unmatched(internal, external) {
		if !elsewhere[name] {
			panic(fmt.Errorf("the internal type has no field for %s", name))
		}
	}
	return lines
}

// The fields of v1 that the conversion to the internal type moves or drops.
var elsewhere = map[string]bool{
	"v1.PodSpec.DeprecatedServiceAccount": true,
	"v1.PodSpec.HostNetwork":              true,
	"v1.PodSpec.HostPID":                  true,
	"v1.PodSpec.HostIPC":                  true,
	"v1.PodSpec.ShareProcessNamespace":    true,
	"v1.PodSpec.HostUsers":                true,
	"v1.PodStatus.PodIP":                  true,
}

func unmatched(internal, external reflect.Type) []string {
	names := []string{}
	for index := range external.NumField() {
		field := external.Field(index)
		if _, exists := internal.FieldByName(field.Name); !exists {
			names = append(names, external.String()+"."+field.Name)
		}
	}
	return names
}

func line(field reflect.StructField, json string) string {
	if json == "" {
		return field.Name + " " + field.Type.String()
	}
	return field.Name + " " + field.Type.String() + " " + json
}
