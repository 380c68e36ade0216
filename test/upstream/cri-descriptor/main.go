// Prints the wire format of CRI v1, as the module k8s.io/cri-api declares it: every message with its fields'
// numbers, types and labels, every enum and every service, sorted so that equal descriptors print equal bytes.
package main

import (
	"encoding/json"
	"os"
	"sort"

	"google.golang.org/protobuf/reflect/protoreflect"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type field struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Label  string `json:"label"`
	Type   string `json:"type"`
	Oneof  string `json:"oneof,omitempty"`
}

type message struct {
	Name     string   `json:"name"`
	Fields   []field  `json:"fields"`
	Reserved [][2]int `json:"reserved,omitempty"`
}

type value struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
}

type enum struct {
	Name   string  `json:"name"`
	Values []value `json:"values"`
}

type method struct {
	Name         string `json:"name"`
	Input        string `json:"input"`
	Output       string `json:"output"`
	ClientStream bool   `json:"clientStream,omitempty"`
	ServerStream bool   `json:"serverStream,omitempty"`
}

type service struct {
	Name    string   `json:"name"`
	Methods []method `json:"methods"`
}

type file struct {
	Package  string    `json:"package"`
	Syntax   string    `json:"syntax"`
	Services []service `json:"services"`
	Messages []message `json:"messages"`
	Enums    []enum    `json:"enums"`
}

// scalarOrName gives a scalar's keyword, or the full name of a message or enum.
func scalarOrName(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return string(f.Message().FullName())
	case protoreflect.EnumKind:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

func describeField(f protoreflect.FieldDescriptor) field {
	described := field{Name: string(f.Name()), Number: int(f.Number()), Label: "singular", Type: scalarOrName(f)}
	if f.IsMap() {
		described.Label = "map"
		described.Type = scalarOrName(f.MapKey()) + "," + scalarOrName(f.MapValue())
	} else if f.IsList() {
		described.Label = "repeated"
	} else if f.HasOptionalKeyword() {
		described.Label = "optional"
	}
	if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		described.Oneof = string(oneof.Name())
	}
	return described
}

func describeMessages(list protoreflect.MessageDescriptors, into *file) {
	for i := range list.Len() {
		m := list.Get(i)
		if m.IsMapEntry() {
			continue
		}
		described := message{Name: string(m.FullName()), Fields: []field{}}
		for j := range m.Fields().Len() {
			described.Fields = append(described.Fields, describeField(m.Fields().Get(j)))
		}
		sort.Slice(described.Fields, func(a, b int) bool { return described.Fields[a].Number < described.Fields[b].Number })
		for j := range m.ReservedRanges().Len() {
			reserved := m.ReservedRanges().Get(j)
			described.Reserved = append(described.Reserved, [2]int{int(reserved[0]), int(reserved[1])})
		}
		into.Messages = append(into.Messages, described)
		describeMessages(m.Messages(), into)
		describeEnums(m.Enums(), into)
	}
}

func describeEnums(list protoreflect.EnumDescriptors, into *file) {
	for i := range list.Len() {
		e := list.Get(i)
		described := enum{Name: string(e.FullName())}
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			described.Values = append(described.Values, value{Name: string(v.Name()), Number: int(v.Number())})
		}
		into.Enums = append(into.Enums, described)
	}
}

func describeServices(list protoreflect.ServiceDescriptors, into *file) {
	for i := range list.Len() {
		s := list.Get(i)
		described := service{Name: string(s.FullName())}
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			described.Methods = append(described.Methods, method{
				Name: string(m.Name()), Input: string(m.Input().FullName()), Output: string(m.Output().FullName()),
				ClientStream: m.IsStreamingClient(), ServerStream: m.IsStreamingServer(),
			})
		}
		sort.Slice(described.Methods, func(a, b int) bool { return described.Methods[a].Name < described.Methods[b].Name })
		into.Services = append(into.Services, described)
	}
}

func main() {
	f := (&cri.VersionRequest{}).ProtoReflect().Descriptor().ParentFile()
	described := file{Package: string(f.Package()), Syntax: f.Syntax().String()}
	describeServices(f.Services(), &described)
	describeMessages(f.Messages(), &described)
	describeEnums(f.Enums(), &described)
	sort.Slice(described.Services, func(a, b int) bool { return described.Services[a].Name < described.Services[b].Name })
	sort.Slice(described.Messages, func(a, b int) bool { return described.Messages[a].Name < described.Messages[b].Name })
	sort.Slice(described.Enums, func(a, b int) bool { return described.Enums[a].Name < described.Enums[b].Name })
	printer := json.NewEncoder(os.Stdout)
	printer.SetIndent("", "\t")
	if err := printer.Encode(described); err != nil {
		panic(err)
	}
}
