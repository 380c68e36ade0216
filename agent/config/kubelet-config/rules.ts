import type { KubeletConfiguration } from "../../../proto/kubelet/config.ts";
import { parseDuration } from "../fields/duration.ts";
import type { FieldPath } from "../fields/field-rule.ts";
import type { Gates } from "./gates.ts";

/** Fields that contradict each other; the first that the user has set is the one to be named. */
export interface Conflict {
  readonly fields: readonly [FieldPath, ...FieldPath[]];
  readonly message: string;
}

type Rule = (config: KubeletConfiguration, gates: Gates) => readonly (Conflict | undefined | false)[];

/**
 * Every contradiction between fields of a configuration whose values are each right by themselves.
 * Rule: ValidateKubeletConfiguration, and what the kubelet refuses later in its start.
 */
export function findConflicts(config: KubeletConfiguration, gates: Gates): readonly Conflict[] {
  return rules
    .flatMap((rule) => rule(config, gates))
    .filter((conflict) => conflict !== undefined && conflict !== false);
}

const rules: readonly Rule[] = [
  checkImages,
  checkAllocatable,
  checkReservedCpus,
  checkReservedMemory,
  checkEviction,
  checkShutdown,
  checkGates,
  checkLogging,
  checkRest,
];

function conflict(message: string, ...fields: readonly [FieldPath, ...FieldPath[]]): Conflict {
  return { fields, message };
}

const checkedByAllowlist = "NeverVerifyAllowlistedImages";

function checkImages(config: KubeletConfiguration): ReturnType<Rule> {
  const {
    imageGCLowThresholdPercent: low,
    imageGCHighThresholdPercent: high,
    maxParallelImagePulls: parallel,
  } = config;
  const minimumAge = msOf(config.imageMinimumGCAge);
  const maximumAge = msOf(config.imageMaximumGCAge);
  return [
    low >= high &&
      conflict(
        `imageGCLowThresholdPercent (${low}) must be less than imageGCHighThresholdPercent (${high})`,
        "imageGCLowThresholdPercent",
        "imageGCHighThresholdPercent",
      ),
    maximumAge > 0 &&
      maximumAge <= minimumAge &&
      conflict(
        `imageMaximumGCAge (${config.imageMaximumGCAge}) must be 0s or greater than imageMinimumGCAge (${config.imageMinimumGCAge})`,
        "imageMaximumGCAge",
        "imageMinimumGCAge",
      ),
    config.serializeImagePulls &&
      parallel !== undefined &&
      parallel > 1 &&
      conflict(
        `found ${parallel}, must be 1 unless serializeImagePulls is false`,
        "maxParallelImagePulls",
        "serializeImagePulls",
      ),
    config.preloadedImagesVerificationAllowlist.length > 0 &&
      config.imagePullCredentialsVerificationPolicy !== checkedByAllowlist &&
      conflict(
        `must be empty unless imagePullCredentialsVerificationPolicy is ${checkedByAllowlist}`,
        "preloadedImagesVerificationAllowlist",
      ),
  ];
}

function checkAllocatable(config: KubeletConfiguration): ReturnType<Rule> {
  const levels = config.enforceNodeAllocatable;
  const has = (level: (typeof levels)[number]) => levels.includes(level);
  const say = (message: string, ...others: readonly FieldPath[]) =>
    conflict(message, "enforceNodeAllocatable", ...others);
  const twice = levels.find((level, index) => levels.indexOf(level) !== index);
  const needsCgroups = levels.find((level) => level !== "none");
  return [
    twice !== undefined && say(`${twice} stands there twice`),
    has("none") && levels.length > 1 && say('"none" must stand alone'),
    needsCgroups !== undefined &&
      !config.cgroupsPerQOS &&
      say(`found ${needsCgroups}, must be [] or ["none"] while cgroupsPerQOS is false`, "cgroupsPerQOS"),
    ...(["system", "kube"] as const).flatMap((owner) => [
      has(`${owner}-reserved`) &&
        has(`${owner}-reserved-compressible`) &&
        say(`${owner}-reserved and ${owner}-reserved-compressible exclude each other`),
      (has(`${owner}-reserved`) || has(`${owner}-reserved-compressible`)) &&
        config[`${owner}ReservedCgroup`] === "" &&
        say(`found ${owner}-reserved, which needs ${owner}ReservedCgroup`),
    ]),
  ];
}

function checkReservedCpus(config: KubeletConfiguration): ReturnType<Rule> {
  const other = (["systemReservedCgroup", "kubeReservedCgroup"] as const).find((field) => config[field] !== "");
  return [
    config.reservedSystemCPUs !== "" &&
      other !== undefined &&
      conflict(`reservedSystemCPUs cannot be set together with ${other}`, "reservedSystemCPUs", other),
  ];
}

function checkReservedMemory(config: KubeletConfiguration): ReturnType<Rule> {
  const seen = new Set<string>();
  const twice = config.reservedMemory
    .flatMap(({ numaNode, limits }) => Object.keys(limits).map((resource) => `${resource} of NUMA node ${numaNode}`))
    .find((name) => seen.size === seen.add(name).size);
  return [twice !== undefined && conflict(`${twice} is reserved twice`, "reservedMemory")];
}

function checkEviction(config: KubeletConfiguration): ReturnType<Rule> {
  const without = Object.keys(config.evictionSoft).find(
    (signal) => !Object.hasOwn(config.evictionSoftGracePeriod, signal),
  );
  return [
    without !== undefined &&
      conflict(`${without} needs a grace period in evictionSoftGracePeriod`, "evictionSoft", "evictionSoftGracePeriod"),
  ];
}

function checkShutdown(config: KubeletConfiguration): ReturnType<Rule> {
  const { shutdownGracePeriod, shutdownGracePeriodCriticalPods } = config;
  const [all, critical] = [msOf(shutdownGracePeriod), msOf(shutdownGracePeriodCriticalPods)];
  const isTooShort = (ms: number) => ms > 0 && ms < 1000;
  const message = (text: string) => `found ${text}, must be 0s or at least 1s`;
  return [
    critical > all &&
      conflict(
        `shutdownGracePeriodCriticalPods (${shutdownGracePeriodCriticalPods}) must not be longer than shutdownGracePeriod (${shutdownGracePeriod})`,
        "shutdownGracePeriodCriticalPods",
        "shutdownGracePeriod",
      ),
    isTooShort(all) && conflict(message(shutdownGracePeriod), "shutdownGracePeriod"),
    isTooShort(critical) && conflict(message(shutdownGracePeriodCriticalPods), "shutdownGracePeriodCriticalPods"),
    config.shutdownGracePeriodByPodPriority.length > 0 &&
      (all > 0 || critical > 0) &&
      conflict(
        "shutdownGracePeriodByPodPriority cannot be set together with shutdownGracePeriod",
        "shutdownGracePeriodByPodPriority",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
      ),
  ];
}

function checkGates(config: KubeletConfiguration, gates: Gates): ReturnType<Rule> {
  const needs = (gate: keyof Gates, isUsed: boolean, field: FieldPath) =>
    isUsed && !gates[gate] && conflict(`needs the feature gate ${gate}`, field);
  const shutsDown = msOf(config.shutdownGracePeriod) > 0 || msOf(config.shutdownGracePeriodCriticalPods) > 0;
  return [
    needs("CustomCPUCFSQuotaPeriod", msOf(config.cpuCFSQuotaPeriod) !== 100, "cpuCFSQuotaPeriod"),
    needs("RotateKubeletServerCertificate", config.serverTLSBootstrap, "serverTLSBootstrap"),
    needs("GracefulNodeShutdown", shutsDown, "shutdownGracePeriod"),
    needs(
      "GracefulNodeShutdownBasedOnPodPriority",
      config.shutdownGracePeriodByPodPriority.length > 0,
      "shutdownGracePeriodByPodPriority",
    ),
    needs(
      "KubeletCrashLoopBackOffMax",
      config.crashLoopBackOff.maxContainerRestartPeriod !== undefined,
      "crashLoopBackOff.maxContainerRestartPeriod",
    ),
    needs(
      "KubeletEnsureSecretPulledImages",
      config.imagePullCredentialsVerificationPolicy !== undefined,
      "imagePullCredentialsVerificationPolicy",
    ),
    needs("MemoryQoS", config.memoryReservationPolicy === "TieredReservation", "memoryReservationPolicy"),
  ];
}

function checkLogging({ logging }: KubeletConfiguration, gates: Gates): ReturnType<Rule> {
  const { flushFrequency } = logging;
  const isFlushed = typeof flushFrequency === "number" ? flushFrequency > 0 : msOf(flushFrequency) > 0;
  return [
    !isFlushed && conflict("must be greater than zero", "logging.flushFrequency"),
    logging.vmodule.length > 0 &&
      logging.format !== "text" &&
      conflict("works only with logging.format text", "logging.vmodule"),
    ...(["text", "json"] as const).flatMap((format) => {
      const { splitStream, infoBufferSize } = logging.options[format];
      return [
        splitStream &&
          !gates.LoggingAlphaOptions &&
          conflict("needs the feature gate LoggingAlphaOptions", `logging.options.${format}.splitStream`),
        !/^[+-]?[0.]+[A-Za-z]*$/.test(String(infoBufferSize)) &&
          !gates.LoggingAlphaOptions &&
          conflict("needs the feature gate LoggingAlphaOptions", `logging.options.${format}.infoBufferSize`),
      ];
    }),
  ];
}

function checkRest(config: KubeletConfiguration): ReturnType<Rule> {
  const ids = config.userNamespaces?.idsPerPod ?? 0;
  return [
    config.systemCgroups !== "" && config.cgroupRoot === "" && conflict("needs cgroupRoot", "systemCgroups"),
    config.enableSystemLogQuery === true &&
      !config.enableSystemLogHandler &&
      conflict("needs enableSystemLogHandler", "enableSystemLogQuery"),
    config.runOnce && conflict("found true, must be false: Kubernetes has removed it", "runOnce"),
    config.registerWithTaints.some(({ timeAdded }) => timeAdded !== undefined) &&
      conflict("timeAdded must not be set", "registerWithTaints"),
    new Set(config.tlsCurvePreferences).size !== config.tlsCurvePreferences.length &&
      conflict("a curve stands there twice", "tlsCurvePreferences"),
    ids % 65_536 !== 0 && conflict(`found ${ids}, must be a multiple of 65536`, "userNamespaces.idsPerPod"),
  ];
}

/** Milliseconds of a duration that has been checked before. */
function msOf(duration: string): number {
  return parseDuration(duration) ?? 0;
}
