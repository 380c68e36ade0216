import { kubernetesVersion } from "../proto/kubernetes/version.ts";

/** Defined by the build; undefined in a run from source. */
declare const BERTH_VERSION: string | undefined;
declare const BERTH_COMMIT: string | undefined;

/** Go's GOOS/GOARCH. */
const platform = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;

/** `berth 0.1.0 (1a2b3c4d5e6f)` */
export function versionLine(): string {
  const commit = builtFrom() === "" ? "" : ` (${builtFrom()})`;
  return `berth ${release()}${commit}\n`;
}

/** The JSON of `berth version -o json`. */
export function versionFields(): Readonly<Record<string, string>> {
  return { version: release(), gitCommit: builtFrom(), kubernetesVersion, platform };
}

/**
 * `Kubernetes v1.36.3`: kubeadm and installers parse this output of `kubelet --version` and compare it with their own
 * release.
 */
export function kubeletVersionLine(): string {
  return `Kubernetes ${kubernetesVersion}\n`;
}

/** The output of `kubelet --version=raw`: Go's print of the kubelet's version.Info, with Berth's values. */
export function kubeletVersionRaw(): string {
  const [major = "", minor = ""] = kubernetesVersion.slice(1).split(".");
  const [, commit = "", plus] = /^([0-9a-f]+)(\+?)$/.exec(builtFrom()) ?? [];
  const fields = {
    Major: major,
    Minor: minor,
    EmulationMajor: "",
    EmulationMinor: "",
    MinCompatibilityMajor: "",
    MinCompatibilityMinor: "",
    GitVersion: kubernetesVersion,
    GitCommit: commit,
    GitTreeState: commit === "" ? "" : plus === "+" ? "dirty" : "clean",
    // The kubelet's value for an unknown build date.
    BuildDate: "1970-01-01T00:00:00Z",
    GoVersion: "",
    Compiler: "bun",
    Platform: platform,
  };
  const shown = Object.entries(fields).map(([name, value]) => `${name}:${JSON.stringify(value)}`);
  return `version.Info{${shown.join(", ")}}\n`;
}

function release(): string {
  return typeof BERTH_VERSION === "string" ? BERTH_VERSION : "from source";
}

/** The commit, with a plus if the tree had changes; "unknown" if built without git, "" for a run from source. */
function builtFrom(): string {
  return typeof BERTH_COMMIT === "string" ? BERTH_COMMIT : "";
}
