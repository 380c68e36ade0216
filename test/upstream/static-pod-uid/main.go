// Records what Kubernetes knows about the uid of a static pod. `uids` computes the uids of the manifests in
// golden/static-pods and of the pods in golden/pod-defaults.json with the kubelet's own functions, and prints the
// quantities of golden/quantity.json as they are hashed; `types` prints the types that are hashed; `dump` prints the
// hashed text of one manifest. It compiles the kubelet's sources of static pods, so no test runs it:
//
//	go run . uids > ../../golden/static-pod-uids.json
//	go run . types > ../../../proto/kubernetes/internal/types.json && npx biome check --write ../../../proto
//	go run . dump ../../golden/static-pods/volumes.yaml
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	_ "unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	_ "k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/utils/dump"
)

// The kubelet's functions are not exported.

//go:linkname applyDefaults k8s.io/kubernetes/pkg/kubelet/config.applyDefaults
func applyDefaults(logger klog.Logger, pod *api.Pod, source string, isFile bool, nodeName types.NodeName) error

//go:linkname tryDecodeSinglePod k8s.io/kubernetes/pkg/kubelet/config.tryDecodeSinglePod
func tryDecodeSinglePod(logger klog.Logger, data []byte, defaultFn func(klog.Logger, *api.Pod) error) (bool, *v1.Pod, error)

//go:linkname tryDecodePodList k8s.io/kubernetes/pkg/kubelet/config.tryDecodePodList
func tryDecodePodList(logger klog.Logger, data []byte, defaultFn func(klog.Logger, *api.Pod) error) (bool, v1.PodList, error)

const (
	nodeName = "node-1.example"
	url      = "http://127.0.0.1:8080/pods?node=1"
)

// The uids of one pod: from the file /manifests/NAME, and from the URL.
type uids struct {
	File string `json:"file"`
	URL  string `json:"url"`
}

type recording struct {
	NodeName string `json:"nodeName"`
	URL      string `json:"url"`
	// By file name. Only the URL may have lists: these are the uids of their items.
	Manifests map[string]uids     `json:"manifests"`
	Lists     map[string][]string `json:"lists"`
	// By the name of the row of pod-defaults.json; the path of the file is /manifests/pod.json.
	Pods map[string]uids `json:"pods"`
	// The decoded form and, if it differs, the form rounded up to thousandths.
	Quantities map[string][]string `json:"quantities"`
	// The form of `a+b`.
	Sums map[string]string `json:"sums"`
}

func main() {
	switch os.Args[1] {
	case "uids":
		print(record())
	case "types":
		print(tables())
	case "dump":
		fmt.Println(hashedText(read(os.Args[2])))
	}
}

func print(value any) {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	check(err)
	return data
}

func record() recording {
	result := recording{nodeName, url, map[string]uids{}, map[string][]string{}, map[string]uids{}, map[string][]string{}, map[string]string{}}
	paths, err := filepath.Glob("../../golden/static-pods/*")
	check(err)
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "list") {
			result.Lists[name] = uidsOfList(read(path))
		} else {
			result.Manifests[name] = uids{uidOf(read(path), "/manifests/"+name, true), uidOf(read(path), url, false)}
		}
	}
	for name, pod := range podRows() {
		result.Pods[name] = uids{uidOf(pod, "/manifests/pod.json", true), uidOf(pod, url, false)}
	}
	recordQuantities(result)
	return result
}

func podRows() map[string][]byte {
	var rows []struct {
		Name string
		Pod  json.RawMessage
	}
	check(json.Unmarshal(read("../../golden/pod-defaults.json"), &rows))
	pods := map[string][]byte{}
	for _, row := range rows {
		pods[row.Name] = row.Pod
	}
	return pods
}

// The manifest may be invalid beyond its uid: the kubelet validates it afterwards.
func uidOf(manifest []byte, source string, isFile bool) string {
	uid := ""
	_, _, err := tryDecodeSinglePod(klog.Background(), manifest, func(logger klog.Logger, pod *api.Pod) error {
		err := applyDefaults(logger, pod, source, isFile, nodeName)
		uid = string(pod.UID)
		return err
	})
	if uid == "" {
		panic(fmt.Errorf("%s has no uid: %w", source, err))
	}
	return uid
}

func uidsOfList(manifest []byte) []string {
	found := []string{}
	_, _, err := tryDecodePodList(klog.Background(), manifest, func(logger klog.Logger, pod *api.Pod) error {
		err := applyDefaults(logger, pod, url, false, nodeName)
		found = append(found, string(pod.UID))
		return err
	})
	check(err)
	return found
}

// The text that the uid is the hash of, without the source.
func hashedText(manifest []byte) string {
	text := ""
	_, _, err := tryDecodeSinglePod(klog.Background(), manifest, func(_ klog.Logger, pod *api.Pod) error {
		text = dump.ForHash(pod)
		return nil
	})
	if text == "" {
		panic(err)
	}
	hasher := fnv.New128a()
	fmt.Fprint(hasher, text)
	return text + "\n" + hex.EncodeToString(hasher.Sum(nil))
}

func recordQuantities(result recording) {
	var rows []struct {
		Input    string
		Accepted bool
	}
	check(json.Unmarshal(read("../../golden/quantity.json"), &rows))
	for _, row := range rows {
		if !row.Accepted {
			continue
		}
		quantity := resource.MustParse(row.Input)
		texts := []string{dump.ForHash(quantity)}
		list := v1.ResourceList{"": resource.MustParse(row.Input)}
		defaults.SetDefaults_ResourceList(&list)
		if rounded := dump.ForHash(list[""]); rounded != texts[0] {
			texts = append(texts, rounded)
		}
		result.Quantities[row.Input] = texts
	}
	terms := []string{"0", "1", "100m", "1.5", "0.5Gi", "1Gi", "64Mi", "1000", "1e3", "8Ei", "1.1Ki", "123456789012345678.123456789", "9223372036854775807", "0.1n", "2k"}
	for _, a := range terms {
		for _, b := range terms {
			sum := resource.MustParse(a)
			sum.Add(resource.MustParse(b))
			result.Sums[a+"+"+b] = dump.ForHash(sum)
		}
	}
}
