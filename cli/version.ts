import { kubernetesVersion } from "../proto/kubernetes/version.ts";

/** Set by the build; a run from source has neither. */
declare const BERTH_VERSION: string | undefined;
declare const BERTH_COMMIT: string | undefined;

/** As Go names it. */
const platform = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;

/** `berth 0.1.0 (1a2b3c4d5e6f)` */
export function versionLine(): string {
  const commit = builtFrom() === "" ? "" : ` (${builtFrom()})`;
  return `berth ${release()}${commit}\n`;
}

/** The same for programs, and what they may have to hold it against. */
export function versionFields(): Readonly<Record<string, string>> {
  return { version: release(), gitCommit: builtFrom(), kubernetesVersion, platform };
}

/** `Kubernetes v1.36.3`: what kubeadm and installers read from `kubelet --version`, and hold against their own release. */
export function kubeletVersionLine(): string {
  return `Kubernetes ${kubernetesVersion}\n`;
}

/** `kubelet --version=raw`: the kubelet prints a structure of Go there, and this is it, with what stands for it in Berth. */
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
    // The kubelet's own word for a time that is not told.
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

/** The commit, with a plus where the tree differed from it; "unknown" where there was no git, "" for a run from source. */
function builtFrom(): string {
  return typeof BERTH_COMMIT === "string" ? BERTH_COMMIT : "";
}
