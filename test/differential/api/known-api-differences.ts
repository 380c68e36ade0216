/*
 * Where the answers of Berth's API differ from those of the reference kubelet, and why.
 */

/** A kind of difference, with those that `differencesOf` names. */
interface KnownApiDifference {
  readonly reason: string;
  readonly differences: readonly string[];
}

const EXEC = "/exec/default/web/app?command=true&output=1";
const OTHER_POD = "/exec/default/web/11111111-2222-3333-4444-555555555555/app?command=true&output=1";
const OLD_WEBSOCKET = `GET ${EXEC} (upgrade websocket, sec-websocket-version 12, sec-websocket-protocol v5.channel.k8s.io)`;
const FILE = "GET /logs/berth-api-cases/file.txt";

const parts = (name: string, ...all: readonly string[]) => all.map((part) => `${name}: ${part}`);
const header = (key: string, ...names: readonly string[]) => names.map((name) => `${name}: header ${key}`);

/** Of KubeletConfiguration, with the settings of the recorded kubelet. */
const EMPTY_FIELDS = [
  ...["cgroupRoot", "clusterDNS[]", "clusterDomain", "enableContentionProfiling", "evictionMaxPodGracePeriod"],
  ...["imageServiceEndpoint", "kernelMemcgNotification", "kubeReservedCgroup", "kubeletCgroups"],
  ...["logging.options.json.splitStream", "logging.options.text.splitStream", "memorySwap.swapBehavior", "podCIDR"],
  ...["podsPerCore", "protectKernelDefaults", "providerID", "readOnlyPort", "reservedSystemCPUs", "rotateCertificates"],
  ...["runOnce", "serverTLSBootstrap", "showHiddenMetricsForVersion", "staticPodPath", "staticPodURL"],
  ...["systemCgroups", "systemReservedCgroup", "tlsMinVersion"],
];

export const knownApiDifferences: readonly KnownApiDifference[] = [
  {
    reason:
      "the right to read nodes/proxy gives no right to run commands or to reach ports: these need create (KEP-2862)",
    differences: [
      ...parts(`GET ${EXEC} (no rights)`, "body"),
      ...[`GET ${EXEC} (proxy reader)`, "GET /portForward/default/web (proxy reader)"].flatMap((name) =>
        parts(name, "status", "header x-content-type-options", "body"),
      ),
    ],
  },
  {
    reason: "the uid of a session is another pod's: Berth opens no session with the pod that has its name now",
    differences: parts(`GET ${OTHER_POD}`, "header x-content-type-options", "body"),
  },
  {
    reason: "Berth checks the handshake of a WebSocket that it translates; the kubelet forwards it to the runtime",
    differences: parts(OLD_WEBSOCKET, "header connection", "header content-type", "body"),
  },
  {
    reason: "the kubelet sends an answer in chunks before its first byte is known, without a type",
    differences: header(
      "content-type",
      "GET /containerLogs/default/waits/app",
      "GET /containerLogs/default/initializes/app",
      "GET /containerLogs/default/web/app?previous=true",
      "GET /containerLogs/default/waits/app?previous=true",
      "GET /containerLogs/default/web/app?previous=maybe",
    ),
  },
  {
    reason: "Berth keeps no managedFields, and leaves lastProbeTime out, which no kubelet sets",
    differences: [
      "GET /pods",
      "GET /pods (accept text/html, application/json;q=0.1)",
      "GET /pods/",
      "GET /%70ods",
    ].flatMap((name) => [
      ...parts(name, "without items[].status.conditions[].lastProbeTime"),
      ...["apiVersion", "fieldsType", "manager", "operation", "time"].flatMap((field) =>
        parts(name, `without items[].metadata.managedFields[].${field}`),
      ),
    ]),
  },
  {
    reason: "Berth serves no device plugins, whose server this checks",
    differences: ["GET /healthz?verbose=1: body", "GET /healthz?exclude=none&verbose: body"],
  },
  {
    reason: "Go leaves out empty fields, which Berth shows",
    differences: ["GET /configz", "POST /configz"].flatMap((name) =>
      parts(name, ...EMPTY_FIELDS.map((field) => `with kubeletconfig.${field}`)),
    ),
  },
  {
    reason: "Berth leaves out enableSystemLogQuery where it is not set; the kubelet shows false",
    differences: ["GET /configz", "POST /configz"].flatMap((name) =>
      parts(name, "without kubeletconfig.enableSystemLogQuery"),
    ),
  },
  {
    reason: "Berth gives OpenMetrics to a client that asks for it; the kubelet gives the text format alone",
    differences: ["GET /metrics (accept application/openmetrics-text; version=1.0.0): header content-type"],
  },
  {
    reason: "the attribute href is HTML too, where an ampersand is &amp;; Go leaves it as it is",
    differences: ["GET /logs/berth-api-cases/: body"],
  },
  {
    reason: "a pod can write files of /var/log: Berth forbids browsers to guess their type",
    differences: header(
      "x-content-type-options",
      FILE,
      ...["0-3", "-5", "0-1,4-5", "0-,0-"].map((range) => `${FILE} (range bytes=${range})`),
      `${FILE} (range bytes=0-3, if-range Wed, 01 Jan 2020 00:00:00 GMT)`,
      `${FILE} (if-modified-since Wed, 01 Jan 2020 00:00:00 GMT)`,
    ),
  },
  {
    reason: "the kubelet has no index of its profiles, Berth says which it has",
    differences: parts("GET /debug/pprof/", "status", "body"),
  },
  {
    reason: "the parser of Bun refuses methods that are not registered",
    differences: parts("BREW /healthz", "status", "header content-type", "header x-content-type-options", "body"),
  },
];
