import { describe, expect, test } from "bun:test";
import type { Config } from "./config.ts";
import { loadConfig } from "./load.ts";
import { ConfigError, describeProblem } from "./problem.ts";

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/**
 * Loads a configuration from files in memory: `/config` is the file, `/d/…` are drop-ins. Adds apiVersion and kind to
 * each.
 */
async function load(argv: readonly string[], contents: Readonly<Record<string, string>> = {}) {
  const texts = new Map(Object.entries(contents).map(([path, text]) => [path, `${head}${text}\n`]));
  const read = (path: string) => {
    const text = texts.get(path);
    return text === undefined ? Promise.reject(new Error("no such file")) : Promise.resolve(text);
  };
  const names = [...texts.keys()].filter((path) => path.startsWith("/d/")).map((path) => path.slice(3));
  const list = () => Promise.resolve(names.map((name) => ({ name, kind: "file" })));
  const configFlags = [
    ...(texts.has("/config") ? ["--config", "/config"] : []),
    ...(names.length > 0 ? ["--config-dir", "/d"] : []),
  ];
  const loaded = await loadConfig({
    argv: [...configFlags, ...argv],
    files: { read, list },
    workingDirectory: "/work",
    hostname: "Node-1",
  });
  if (loaded.kind !== "config") throw new Error(`found ${loaded.kind}`);
  return loaded;
}

async function problemsOf(argv: readonly string[], contents: Readonly<Record<string, string>> = {}): Promise<string[]> {
  try {
    await load(argv, contents);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message.split("\n");
  }
  throw new Error("it was accepted");
}

describe("without any setting", () => {
  test("the node is standalone, secure, and named like the machine", async () => {
    const { config, kubelet } = await load([]);
    expect(config).toMatchObject({
      clusterConfigSource: undefined,
      nodeName: "node-1",
      rootDir: "/var/lib/kubelet",
      staticPodPath: undefined,
    });
    expect(kubelet.authentication.anonymous.enabled).toBe(false);
    expect(kubelet.authorization.mode).toBe("Webhook");
    expect(kubelet.readOnlyPort).toBe(0);
  });

  test("no file is read", async () => {
    const touched = () => Promise.reject(new Error("touched"));
    const files = { read: touched, list: touched };
    const loaded = await loadConfig({ argv: [], files, workingDirectory: "/", hostname: "n" });
    expect(loaded.kind).toBe("config");
  });

  test("no default causes a warning", async () => {
    const { warnings } = await load([]);
    expect(warnings).toEqual([]);
  });
});

describe("Config converts the value:", () => {
  const rows: readonly (readonly [string, string, Partial<Config>])[] = [
    [
      "durations are milliseconds",
      "fileCheckFrequency: 1m30s\ncpuCFSQuotaPeriod: 50ms",
      { fileCheckFrequencyMs: 90_000, cpuCFSQuotaPeriodMs: 50 },
    ],
    ["user namespaces have 65536 ids by default", "", { idsPerPod: 65_536 }],
    ["user namespaces have the given number of ids", "userNamespaces: {idsPerPod: 131072}", { idsPerPod: 131_072 }],
    ["image pulls are serialized by default", "", { maxParallelImagePulls: 1 }],
    ["maxParallelImagePulls allows parallel pulls", "maxParallelImagePulls: 4", { maxParallelImagePulls: 4 }],
    [
      "serializeImagePulls false makes parallel pulls unlimited",
      "serializeImagePulls: false",
      { maxParallelImagePulls: undefined },
    ],
    [
      "imageServiceEndpoint defaults to the runtime's",
      "containerRuntimeEndpoint: /run/c.sock",
      { imageServiceEndpoint: "unix:///run/c.sock" },
    ],
    [
      "imageServiceEndpoint may differ from the runtime's",
      "imageServiceEndpoint: unix:///i.sock",
      { imageServiceEndpoint: "unix:///i.sock" },
    ],
    ["the maximum of the crash back-off is five minutes by default", "", { maxContainerRestartPeriodMs: 300_000 }],
    [
      "the maximum of the crash back-off may be shorter",
      "crashLoopBackOff: {maxContainerRestartPeriod: 20s}",
      { maxContainerRestartPeriodMs: 20_000 },
    ],
    [
      "the maximum of the crash back-off is five minutes without the gate",
      "featureGates: {KubeletCrashLoopBackOffMax: false}",
      { maxContainerRestartPeriodMs: 300_000 },
    ],
    ["an empty resolvConf is undefined", 'resolvConf: ""', { resolvConf: undefined }],
    ["relative paths start at the working directory", "staticPodPath: pods", { staticPodPath: "/work/pods" }],
    ["zero counts as unset for a field that is not a pointer", "registryBurst: 0", { registryBurst: 10 }],
    ["zero counts as set for a pointer field", "registryPullQPS: 0", { registryPullQPS: 0 }],
    ["null counts as unset", "registryBurst: null\nclusterDNS: ~", { registryBurst: 10, clusterDNS: [] }],
    ["logging is copied", "logging: {format: json, verbosity: 4}", { logging: { format: "json", verbosity: 4 } }],
  ];
  for (const [name, text, expected] of rows)
    test(name, async () => expect((await load([], { "/config": text })).config).toMatchObject(expected));
});

describe("precedence:", () => {
  test("flags override drop-ins override the file overrides defaults", async () => {
    const files = { "/config": "maxPods: 1\npodsPerCore: 1\nport: 1", "/d/1.conf": "maxPods: 2\npodsPerCore: 2" };
    const { kubelet } = await load(["--max-pods=3"], files);
    expect([kubelet.maxPods, kubelet.podsPerCore, kubelet.port, kubelet.healthzPort]).toEqual([3, 2, 1, 10248]);
  });

  test("later drop-ins replace lists and merge maps", async () => {
    const files = {
      "/config": "clusterDNS: [1.1.1.1, 2.2.2.2]\nsystemReserved: {cpu: 1m, memory: 1Gi}",
      "/d/20.conf": "clusterDNS: [4.4.4.4]",
      "/d/10.conf": "clusterDNS: [3.3.3.3]\nsystemReserved: {cpu: 2m}",
    };
    const { kubelet } = await load([], files);
    expect(kubelet.clusterDNS).toEqual(["4.4.4.4"]);
    expect(kubelet.systemReserved).toEqual({ cpu: "2m", memory: "1Gi" });
  });

  test("null in a drop-in restores the default", async () => {
    const files = {
      "/config": "maxPods: 5\nsystemReserved: {cpu: 1m, memory: 1Gi}",
      "/d/1.conf": "maxPods: null\nsystemReserved: {cpu: null}",
    };
    const { kubelet } = await load([], files);
    expect([kubelet.maxPods, kubelet.systemReserved]).toEqual([110, { memory: "1Gi" }]);
  });

  test("feature gates are merged one by one", async () => {
    const files = {
      "/config": "featureGates: {EnvFiles: false, PodsAPI: true}",
      "/d/1.conf": "featureGates: {PodsAPI: false}",
    };
    const { kubelet } = await load(["--feature-gates=MemoryQoS=true"], files);
    expect(kubelet.featureGates).toEqual({ EnvFiles: false, PodsAPI: false, MemoryQoS: true });
  });

  test("traces are sent only if some are sampled", async () => {
    const tracingOf = async (text: string) => (await load([], { "/config": text })).config.tracing;
    expect(await tracingOf("")).toBeUndefined();
    expect(await tracingOf("tracing: {endpoint: 'collector:4317'}")).toBeUndefined();
    expect(await tracingOf("tracing: {samplingRatePerMillion: 5}")).toEqual({
      endpoint: "localhost:4317",
      samplingRatePerMillion: 5,
    });
    expect(await problemsOf([], { "/config": "tracing: {samplingRatePerMillion: 2000000}" })).toEqual([
      expect.stringContaining("tracing.samplingRatePerMillion: found 2000000, must be"),
    ]);
  });

  test("the cgroups of daemons are paths below the mount point", async () => {
    const cgroupsOf = async (args: readonly string[], text = "") =>
      (await load(args, { "/config": text })).config.daemonCgroups;
    expect(await cgroupsOf([])).toEqual({});
    expect(await cgroupsOf(["--runtime-cgroups=/system.slice/containerd.service/"])).toEqual({
      runtime: "/system.slice/containerd.service",
    });
    expect(await cgroupsOf(["--runtime-cgroups=runtime.slice"], "systemCgroups: ../system\ncgroupRoot: /")).toEqual({
      runtime: "/runtime.slice",
      misc: "/system",
    });
  });

  test("a drop-in is merged after the file's defaults", async () => {
    expect(await problemsOf([], { "/config": "", "/d/1.conf": "maxParallelImagePulls: 5" })).toEqual([
      "/d/1.conf:3: maxParallelImagePulls: found 5, must be 1 unless serializeImagePulls is false",
    ]);
    const reported = async (files: Readonly<Record<string, string>>) =>
      (await load([], files)).kubelet.nodeStatusReportFrequency;
    expect(await reported({ "/config": "nodeStatusUpdateFrequency: 7s" })).toBe("7s");
    expect(await reported({ "/config": "", "/d/1.conf": "nodeStatusUpdateFrequency: 7s" })).toBe("5m");
  });

  test("evictionHard replaces the default thresholds unless they are merged", async () => {
    const hard = async (text: string) => (await load([], { "/config": text })).kubelet.evictionHard;
    expect(await hard("evictionHard: {memory.available: 1Gi}")).toEqual({ "memory.available": "1Gi" });
    expect(await hard("evictionHard: {}")).toEqual({});
    const added = await hard("evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true");
    expect(added).toMatchObject({ "memory.available": "1Gi", "nodefs.available": "10%" });
  });
});

describe("is rejected in one line with file, line, field, value and expectation:", () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ["an unknown field", "maxPod: 3", "maxPod: unknown field, did you mean maxPods?"],
    ["an unknown nested field", "logging: {fromat: json}", "logging.fromat: unknown field, did you mean format?"],
    [
      "an unknown field without a similar one",
      "memorySwap: {xyz: 1}",
      "memorySwap.xyz: unknown field, known are swapBehavior",
    ],
    ["the wrong type", "maxPods: many", 'maxPods: found "many", must be an integer from 0 to 2147483647'],
    ["a number for a string", "clusterDomain: 5", "clusterDomain: found 5, must be a string (put it in quotes)"],
    [
      "a number for a duration",
      "syncFrequency: 10",
      "syncFrequency: found 10, must be a duration greater than zero, such as 1m30s",
    ],
    [
      "a scalar for a list",
      "clusterDNS: 10.0.0.10",
      'clusterDNS: found "10.0.0.10", must be a list, each an IP address',
    ],
    [
      "a list for a map",
      "evictionHard: []",
      "evictionHard: found an empty list, must be a map, each value a quantity greater than zero, such as 100Mi, or a percentage from 0% to 100%",
    ],
    ["a list for a struct", "authentication: []", "authentication: found an empty list, must be a map of fields"],
    [
      "a value outside the enumeration",
      "hairpinMode: foo",
      'hairpinMode: found "foo", must be one of "promiscuous-bridge", "hairpin-veth", "none"',
    ],
    ["an integer out of range", "port: 70000", "port: found 70000, must be an integer from 1 to 65535"],
    [
      "a duration out of range",
      "cpuCFSQuotaPeriod: 2s",
      'cpuCFSQuotaPeriod: found "2s", must be a duration from 1ms to 1s',
    ],
    [
      "a sysctl without namespace",
      "allowedUnsafeSysctls: [net.core.somaxconn, kernel.pid_max]",
      'allowedUnsafeSysctls[1]: found "kernel.pid_max", must be a namespaced sysctl such as kernel.msg* or net.core.somaxconn',
    ],
    ["an invalid list element", "clusterDNS: [10.0.0.10, ten]", 'clusterDNS[1]: found "ten", must be an IP address'],
    [
      "an unknown eviction signal",
      "evictionHard: {memory.availble: 1Gi}",
      'evictionHard["memory.availble"]: unknown key, did you mean memory.available?',
    ],
    [
      "an unknown resource with an unquoted value",
      "systemReserved: {gpu: 1}",
      'systemReserved["gpu"]: found 1, must be a quantity, not negative, such as 500m or 1Gi (put it in quotes)',
    ],
    [
      "an unknown resource",
      'systemReserved: {gpu: "1"}',
      'systemReserved["gpu"]: unknown key, must be one of cpu, memory, ephemeral-storage, pid',
    ],
    [
      "an invalid quantity",
      "kubeReserved: {cpu: lots}",
      'kubeReserved["cpu"]: found "lots", must be a quantity, not negative, such as 500m or 1Gi',
    ],
    [
      "an unknown feature gate",
      "featureGates: {EventPLEG: true}",
      "featureGates.EventPLEG: unknown feature gate, did you mean EventedPLEG?",
    ],
    [
      "a locked feature gate",
      "featureGates: {SidecarContainers: false}",
      "featureGates.SidecarContainers: found false, must be true: the gate is locked",
    ],
    [
      "a feature gate that needs another one",
      "featureGates: {ClusterTrustBundleProjection: true}",
      "featureGates: ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
    ],
    [
      "a feature gate that is on by default and needs two others",
      "featureGates: {ContainerRestartRules: false, NodeDeclaredFeatures: false, ExtendWebSocketsToKubelet: false, InPlacePodLevelResourcesVerticalScaling: false, InPlacePodVerticalScalingInitContainers: false}",
      "featureGates: RestartAllContainersOnContainerExits is enabled, but depends on features that are disabled: [ContainerRestartRules NodeDeclaredFeatures]",
    ],
    [
      "a feature gate that AllBeta disables and another one needs",
      "featureGates: {AllBeta: false, ClusterTrustBundleProjection: true}",
      "featureGates: ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
    ],
    [
      "a taint without a key",
      "registerWithTaints: [{effect: NoExecute}]",
      'registerWithTaints[0].key: found "", must be a label key such as example.com/role',
    ],
    [
      "a low threshold above the high one",
      "imageGCLowThresholdPercent: 90",
      "imageGCLowThresholdPercent: imageGCLowThresholdPercent (90) must be less than imageGCHighThresholdPercent (85)",
    ],
    ["runOnce", "runOnce: true", "runOnce: found true, must be false: Kubernetes has removed it"],
    [
      "enforceNodeAllocatable without cgroups",
      "cgroupsPerQOS: false",
      'enforceNodeAllocatable: found pods, must be [] or ["none"] while cgroupsPerQOS is false',
    ],
  ];
  for (const [name, text, expected] of rows)
    test(name, async () => expect(await problemsOf([], { "/config": text })).toEqual([`/config:3: ${expected}`]));

  test("several problems are sorted by line", async () => {
    const text = "hairpinMode: foo\nmaxPod: 1\nclusterDNS: [a, b]";
    expect((await problemsOf([], { "/config": text })).map((line) => line.slice(0, 22))).toEqual([
      "/config:3: hairpinMode",
      "/config:4: maxPod: unk",
      "/config:5: clusterDNS[",
      "/config:5: clusterDNS[",
    ]);
  });

  test("each problem names its own file", async () => {
    const files = { "/config": "port: x", "/d/1.conf": "maxPods: x" };
    expect(await problemsOf([], files)).toEqual([
      '/config:3: port: found "x", must be an integer from 1 to 65535',
      '/d/1.conf:3: maxPods: found "x", must be an integer from 0 to 2147483647',
    ]);
  });

  test("an unreadable file", async () => {
    const files = {
      read: () => Promise.reject(new Error("EACCES: permission denied\n")),
      list: () => Promise.resolve([]),
    };
    const loading = loadConfig({ argv: ["--config=c.yaml"], files, workingDirectory: "/etc", hostname: "n" });
    await expect(loading).rejects.toThrow("/etc/c.yaml: cannot be read: EACCES: permission denied");
  });

  test("an invalid value is accepted when a flag overrides it, unless its type is wrong", async () => {
    expect((await load(["--port=5"], { "/config": "port: 70000" })).kubelet.port).toBe(5);
    expect(await problemsOf(["--port=5"], { "/config": "port: many" })).toHaveLength(1);
  });

  test("a header, which may contain a token, is never shown", async () => {
    const text = (
      await problemsOf(["--manifest-url-header=hunter2"], { "/config": "staticPodURLHeader: {Authorization: hunter3}" })
    ).join();
    expect(text).toContain("a value that is not shown");
    expect(text).not.toContain("hunter");
  });
});

describe("the node configuration", () => {
  test("combines flags and file", async () => {
    const argv = ["--node-labels=example.com/a=b,team=", "--cloud-provider=external", "--provider-id=x://1"];
    const text =
      "nodeStatusUpdateFrequency: 5s\nregisterWithTaints: [{key: a, effect: NoSchedule}]\nsystemReserved: {cpu: 1m}";
    const { config } = await load(argv, { "/config": text });
    expect(config.node).toMatchInlineSnapshot(`
      {
        "cgroupsPerQOS": true,
        "declaredFeatures": [
          "ExtendWebSocketsToKubelet",
          "InPlacePodLevelResourcesVerticalScaling",
          "InPlacePodVerticalScalingInitContainers",
          "RestartAllContainersOnContainerExits",
        ],
        "enableControllerAttachDetach": true,
        "enforceNodeAllocatable": [
          "pods",
        ],
        "evictionHard": {
          "imagefs.available": "15%",
          "imagefs.inodesFree": "5%",
          "memory.available": "100Mi",
          "nodefs.available": "10%",
          "nodefs.inodesFree": "5%",
        },
        "evictionMinimumReclaim": {},
        "evictionPressureTransitionPeriodMs": 300000,
        "evictionSoft": {},
        "evictionSoftGracePeriodMs": {},
        "isCloudExternal": true,
        "kubeReserved": {},
        "labels": {
          "example.com/a": "b",
          "team": "",
        },
        "localStorageCapacityIsolation": true,
        "maxPods": 110,
        "memoryReservationPolicy": undefined,
        "nodeLeaseDurationSeconds": 40,
        "nodeStatusMaxImages": 50,
        "nodeStatusReportFrequencyMs": 5000,
        "nodeStatusUpdateFrequencyMs": 5000,
        "podsPerCore": 0,
        "providerID": "x://1",
        "registerNode": true,
        "registerWithTaints": [
          {
            "effect": "NoSchedule",
            "key": "a",
            "value": "",
          },
        ],
        "reservedCgroupPaths": {
          "kube": "",
          "system": "",
        },
        "reservedSystemCPUs": "",
        "systemReserved": {
          "cpu": "1m",
        },
      }
    `);
  });

  test("omits declared features whose gate is off", async () => {
    const declared = async (text: string) => (await load([], { "/config": text })).config.node.declaredFeatures;
    const [webSockets, podResize, initResize, restartAll] = [
      "ExtendWebSocketsToKubelet",
      "InPlacePodLevelResourcesVerticalScaling",
      "InPlacePodVerticalScalingInitContainers",
      "RestartAllContainersOnContainerExits",
    ];
    const off = `featureGates: {${restartAll}: false}\n`;
    expect([await declared(""), await declared(off)]).toEqual([
      [webSockets, podResize, initResize, restartAll],
      [webSockets, podResize, initResize],
    ]);
    expect(await declared("featureGates: {AllBeta: false}\n")).toEqual([]);
  });
});

describe("warnings about unimplemented settings:", () => {
  const cases: readonly (readonly [string, readonly string[], string, readonly string[]])[] = [
    [
      "a field is reported",
      [],
      "imageGCHighThresholdPercent: 90",
      ["/config:3: imageGCHighThresholdPercent 90 is known but not implemented yet: images are never removed yet"],
    ],
    [
      "an implemented field with its default value is not reported, nor an empty list",
      [],
      "maxPods: 110\nlogging: {vmodule: []}",
      [],
    ],
    [
      "a field that asks for what is not implemented is reported although that is its default",
      [],
      "enableControllerAttachDetach: true\nevictionHard: {memory.available: 100Mi}",
      [
        expect.stringContaining("evicts no pods yet"),
        "/config:3: enableControllerAttachDetach true is known but not implemented yet: no volumes are attached yet",
      ],
    ],
    ["the settings of the node's API are implemented", [], "port: 10260\nenableDebuggingHandlers: true", []],
    [
      "a port without authentication is reported",
      [],
      "readOnlyPort: 10255",
      ["/config:3: readOnlyPort 10255 is known but not implemented yet: no port is served without authentication"],
    ],
    [
      "a field whose default is what happens is not reported",
      [],
      [
        "cpuManagerPolicy: none\nmemoryManagerPolicy: None\ntopologyManagerPolicy: none\ncgroupDriver: cgroupfs",
        "cpuManagerReconcilePeriod: 10s\ntopologyManagerScope: container\nmemoryReservationPolicy: None",
        "memoryThrottlingFactor: 0.9",
        'logging: {options: {text: {infoBufferSize: "0"}, json: {infoBufferSize: "0"}}}',
        "authentication: {anonymous: {enabled: false}}",
      ].join("\n"),
      [],
    ],
    [
      "a reservation is not reported",
      ["--kube-reserved=pid=100,memory=1Gi"],
      'systemReserved: {pid: "1000", cpu: 1m}',
      [],
    ],
    [
      "a field that requests the actual behaviour is not reported",
      [],
      [
        "protectKernelDefaults: true\nenableServer: false\nregisterNode: false\nenableSystemLogQuery: false\nhealthzPort: 0",
        "imageGCHighThresholdPercent: 100\npodPidsLimit: 0\nlogging: {flushFrequency: 1s}",
        'evictionHard: {nodefs.available: "0%", imagefs.available: 100%}\nevictionSoft: {}',
      ].join("\n"),
      [],
    ],
    ["an empty evictionHard is not reported", [], "evictionHard: {}", []],
    [
      "a single effective threshold is reported",
      [],
      'evictionHard: {nodefs.available: "0%", memory.available: 1Gi}',
      [expect.stringContaining("evicts no pods yet")],
    ],
    [
      "a value that requests the opposite of the actual behaviour is reported",
      [],
      "hairpinMode: hairpin-veth",
      [expect.stringContaining("the network plugin decides")],
    ],
    ["--node-ip is implemented", ["--node-ip=192.0.2.7"], "", []],
    ["an implemented field is not reported", [], "clusterDomain: cluster.local", []],
    [
      "singleProcessOOMKill and swapBehavior are implemented",
      [],
      "singleProcessOOMKill: false\nmemorySwap: {swapBehavior: LimitedSwap}",
      [],
    ],
    [
      "a flag is named",
      ["--cpu-manager-policy=static"],
      "",
      ['--cpu-manager-policy: cpuManagerPolicy "static" is known but not implemented yet: containers share all CPUs'],
    ],
    ["--kubeconfig is implemented", ["--kubeconfig=/etc/kubernetes/kubelet.conf"], "", []],
    [
      "--bootstrap-kubeconfig is reported",
      ["--bootstrap-kubeconfig=/etc/kubernetes/bootstrap.conf"],
      "",
      [expect.stringContaining("no certificate is requested yet")],
    ],
    [
      "an unimplemented gate is reported",
      [],
      "featureGates: {PodsAPI: true, MemoryQoS: true, EnvFiles: true}",
      ["/config:3: the feature gate PodsAPI is known but has no effect yet"],
    ],
    ["the gate KubeletCrashLoopBackOffMax is implemented", [], "featureGates: {KubeletCrashLoopBackOffMax: false}", []],
    [
      "the gate RestartAllContainersOnContainerExits is implemented",
      [],
      "featureGates: {RestartAllContainersOnContainerExits: false}",
      [],
    ],
    ["--version=false is not reported", ["--version=false"], "", []],
    [
      "a version to report is reported, and the agent starts",
      ["--version=v1.36.3-edge"],
      "",
      ['--version "v1.36.3-edge" is known but not implemented yet: the node reports the version that Berth implements'],
    ],
    [
      "a secret is not shown",
      ["--storage-driver-password=hunter2"],
      "",
      ["--storage-driver-password is known but not implemented yet: the agent has no cAdvisor"],
    ],
  ];
  const base = "cgroupsPerQOS: false\nenforceNodeAllocatable: []";
  for (const [name, argv, text, expected] of cases)
    test(name, async () => {
      const { warnings } = await load(argv, { "/config": `${text}\n${base}` });
      expect(warnings).toEqual([...expected]);
    });
});

test("changed ConfigMaps and Secrets are found by a watch, or by reads as often as the strategy says", async () => {
  const read = async (text: string) => (await load([], { "/config": text })).config.changeDetection;
  expect(await read("maxPods: 110")).toEqual({ strategy: "Watch", syncFrequencyMs: 60_000 });
  const cached = await read("configMapAndSecretChangeDetectionStrategy: Cache\nsyncFrequency: 30s");
  expect(cached).toEqual({ strategy: "Cache", syncFrequencyMs: 30_000 });
  expect(await problemsOf([], { "/config": "configMapAndSecretChangeDetectionStrategy: Poll" })).toEqual([
    '/config:3: configMapAndSecretChangeDetectionStrategy: found "Poll", must be one of "Get", "Cache", "Watch"',
  ]);
});

test("early probes are on by default, and off by --early-probes=false", async () => {
  const rows = [[], ["--early-probes"], ["--early-probes=false"]];
  const read = rows.map(async (argv) => (await load(argv)).config.earlyProbes);
  expect(await Promise.all(read)).toEqual([true, true, false]);
});

test("the kernel's settings are set by default, and left by --set-kernel-tunables=false", async () => {
  const read = [[], ["--set-kernel-tunables=false"]].map(async (argv) => (await load(argv)).config.setsKernelTunables);
  expect(await Promise.all(read)).toEqual([true, false]);
});

test("the owner of the network is found by the installed delegate, unless --network-owner names it", async () => {
  const read = async (...argv: readonly string[]) => (await load(argv)).config.network;
  const delegateDir = "/etc/berth/cni/net.d";
  expect(await read()).toEqual({ source: "auto", owner: "auto", delegateDir, podCIDRs: [] });
  const flags = ["--network=builtin", "--network-owner=agent", "--network-delegate-dir=d"];
  const podCIDRs = ["10.7.3.0/24", "fd00:7:3::/64"];
  const expected = { source: "builtin", owner: "agent", delegateDir: "/work/d", podCIDRs } as const;
  expect(await read(...flags, "--pod-cidr=10.7.3.0/24,fd00:7:3::/64")).toEqual(expected);
  expect(await problemsOf(["--network=flannel"])).toEqual([
    '--network: found "flannel", must be one of "auto", "chain", "builtin"',
  ]);
  expect(await problemsOf(["--network-owner=kubelet"])).toEqual([
    '--network-owner: found "kubelet", must be one of "auto", "agent", "runtime"',
  ]);
});

describe("the cluster source", () => {
  const rows: readonly (readonly [string, readonly string[], Config["clusterConfigSource"]])[] = [
    ["is undefined by default", [], undefined],
    [
      "is a kubeconfig, relative to the working directory",
      ["--kubeconfig=k.conf"],
      { kind: "kubeconfig", path: "/work/k.conf" },
    ],
    ["is the agent's own pod with --in-cluster", ["--in-cluster"], { kind: "in-cluster" }],
    [
      "is a kubeconfig, whatever its name",
      ["--kubeconfig=in-cluster"],
      { kind: "kubeconfig", path: "/work/in-cluster" },
    ],
    ["is undefined with --in-cluster=false", ["--in-cluster=false"], undefined],
  ];
  for (const [name, argv, expected] of rows)
    test(name, async () => expect((await load(argv)).config.clusterConfigSource).toEqual(expected));

  test("is rejected when both are set", async () => {
    const error = await load(["--in-cluster", "--kubeconfig=k.conf"]).catch((failure: unknown) => failure);
    expect((error as ConfigError).problems.map(describeProblem)).toEqual([
      "--in-cluster: --kubeconfig is set too: set only one of them",
    ]);
  });
});

describe("the command line requests", () => {
  const ask = (...argv: readonly string[]) =>
    loadConfig({
      argv,
      files: { read: () => Promise.reject(new Error("read")), list: () => Promise.resolve([]) },
      workingDirectory: "/",
      hostname: "n",
    });

  test("the version, without reading any file", async () =>
    expect(await ask("--config=/x", "--version")).toEqual({ kind: "version", form: "line" }));
  test("--version asks for the version, as a line or raw", async () => {
    for (const [flag, form] of [
      ["--version=true", "line"],
      ["--version=1", "line"],
      ["--version=raw", "raw"],
    ] as const)
      expect(await ask(flag)).toEqual({ kind: "version", form });
  });
  test("the help, whatever else is wrong", async () => {
    const help = await ask("--nonsense", "-h");
    expect(help).toMatchObject({ kind: "help", text: expect.stringContaining("--pod-manifest-path string") });
  });
});

describe("an invalid node name is rejected in one line:", () => {
  const files = { read: () => Promise.resolve(""), list: () => Promise.resolve([]) };
  const named = (hostname: string, ...argv: readonly string[]) =>
    loadConfig({ argv, files, workingDirectory: "/", hostname });
  const subdomain = "must be an RFC 1123 subdomain such as node-1.example.org: letters, digits, - and ., each part";
  const rows: readonly (readonly [sentence: string, hostname: string, argv: readonly string[], line: string])[] = [
    ["an empty hostname", " ", [], "--hostname-override: must be set, since the machine has no hostname"],
    [
      "an invalid --hostname-override",
      "node",
      ["--hostname-override", "my_node b"],
      `--hostname-override: found "my_node b", ${subdomain}`,
    ],
    [
      "a name with an empty label",
      "node",
      ["--hostname-override=a..b"],
      `--hostname-override: found "a..b", ${subdomain}`,
    ],
    ["an invalid hostname of the machine", "my_node", [], `this machine's hostname: found "my_node", ${subdomain}`],
    [
      "a name that is too long",
      "node",
      [`--hostname-override=${"a".repeat(254)}`],
      `--hostname-override: found "${"a".repeat(58)}…, ${subdomain}`,
    ],
  ];
  for (const [sentence, hostname, argv, line] of rows)
    test(sentence, async () => {
      const refusal = await named(hostname, ...argv).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(ConfigError);
      expect((refusal as ConfigError).problems).toHaveLength(1);
      expect((refusal as ConfigError).message).toStartWith(line);
    });

  test("a valid --hostname-override replaces an invalid hostname", async () => {
    const loaded = await named("my_node", "--hostname-override=node-1.example.org");
    expect(loaded).toMatchObject({ kind: "config", config: { nodeName: "node-1.example.org" } });
  });

  test("--version works despite an invalid hostname", async () => {
    expect(await named("my_node", "--version")).toEqual({ kind: "version", form: "line" });
  });
});

test("--allowed-unsafe-sysctls replaces the list of the file", async () => {
  const files = { "/config": "allowedUnsafeSysctls: [kernel.msg*]" };
  expect((await load([], files)).config.allowedUnsafeSysctls).toEqual(["kernel.msg*"]);
  const { config, warnings } = await load(["--allowed-unsafe-sysctls=net.core.somaxconn,kernel/sem"], files);
  expect(config.allowedUnsafeSysctls).toEqual(["net.core.somaxconn", "kernel/sem"]);
  expect(warnings.filter((warning) => warning.includes("ysctl"))).toEqual([]);
});

test("--hostname-override is trimmed and lower-cased", async () => {
  expect((await load(["--hostname-override= Edge-7 "])).config.nodeName).toBe("edge-7");
});

test("the configuration is deeply frozen", async () => {
  const { config, kubelet } = await load([], { "/config": "clusterDNS: [1.1.1.1]" });
  expect(() => (config.clusterDNS as string[]).push("2.2.2.2")).toThrow();
  expect(() => Object.assign(kubelet.logging, { format: "json" })).toThrow();
});

describe("the configuration of the node's API", () => {
  test("is secure by default: no anonymous requests, webhooks, no query of the journal, no port without authentication", async () => {
    const { config } = await load([]);
    expect(config.healthz).toEqual({ address: "127.0.0.1", port: 10248 });
    expect(config.api).toEqual({
      address: "0.0.0.0",
      port: 10250,
      tls: {
        files: undefined,
        certDir: "/var/lib/kubelet/pki",
        minVersion: "",
        cipherSuites: [],
        curvePreferences: [],
      },
      clientCAFile: undefined,
      tokenReview: { cacheTtlMs: 120_000 },
      allowsAnonymous: false,
      accessReview: { allowedTtlMs: 300_000, deniedTtlMs: 30_000 },
      streamingIdleTimeoutMs: 14_400_000,
      enables: {
        debugging: true,
        systemLogs: true,
        systemLogQuery: false,
        profiling: true,
        debugFlags: true,
        checkpoint: true,
      },
    });
  });

  test("has paths from the working directory, and what is turned off is undefined", async () => {
    const flags = [
      "--tls-cert-file=tls.crt",
      "--tls-private-key-file=/tls.key",
      "--client-ca-file=ca.crt",
      "--cert-dir=pki",
    ];
    const { config } = await load([
      ...flags,
      "--authorization-mode=AlwaysAllow",
      "--authentication-token-webhook=false",
    ]);
    expect(config.api).toMatchObject({
      tls: { files: { cert: "/work/tls.crt", key: "/tls.key" }, certDir: "/work/pki" },
      clientCAFile: "/work/ca.crt",
    });
    expect([config.api?.tokenReview, config.api?.accessReview]).toEqual([undefined, undefined]);
    const off = await load(["--enable-server=false", "--healthz-port=0"]);
    expect([off.config.api, off.config.healthz]).toEqual([undefined, undefined]);
  });

  test("shows the effective value of every flag, without secrets", async () => {
    const { config } = await load(["--root-dir=/r", "--manifest-url=http://user:secret@example.com"], {
      "/config": "port: 10260\nclusterDNS: [192.0.2.53]",
    });
    expect(config.flagValues).toMatchObject({
      port: "10260",
      "root-dir": "/r",
      "cluster-dns": '["192.0.2.53"]',
      "cert-dir": "/var/lib/kubelet/pki",
      "manifest-url": "CLASSIFIED",
      "storage-driver-password": "CLASSIFIED",
      "node-ip": "",
    });
  });
});
