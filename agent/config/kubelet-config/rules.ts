import type { KubeletConfiguration } from "../../../proto/kubelet/config.ts";
import { validDurationMs } from "../fields/duration.ts";
import type { FieldPath } from "./field.ts";
import { type Gates, unmetDependencies } from "./gates.ts";

/** Fields that contradict each other. The problem is reported at the first of them that is set explicitly. */
export interface Conflict {
  readonly fields: readonly [FieldPath, ...FieldPath[]];
  readonly message: string;
}

type Rule = (config: KubeletConfiguration, gates: Gates) => readonly (Conflict | undefined | false)[];

/**
 * Finds all contradictions between fields whose values are valid on their own.
 * Rule: ValidateKubeletConfiguration, and the checks that the kubelet makes later in its start.
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

function createConflict(message: string, ...fields: readonly [FieldPath, ...FieldPath[]]): Conflict {
  return { fields, message };
}

const checkedByAllowlist = "NeverVerifyAllowlistedImages";

function checkImages(config: KubeletConfiguration): ReturnType<Rule> {
  const {
    imageGCLowThresholdPercent: low,
    imageGCHighThresholdPercent: high,
    maxParallelImagePulls: parallel,
  } = config;
  const minimumAge = validDurationMs(config.imageMinimumGCAge);
  const maximumAge = validDurationMs(config.imageMaximumGCAge);
  return [
    low >= high &&
      createConflict(
        `imageGCLowThresholdPercent (${low}) must be less than imageGCHighThresholdPercent (${high})`,
        "imageGCLowThresholdPercent",
        "imageGCHighThresholdPercent",
      ),
    maximumAge > 0 &&
      maximumAge <= minimumAge &&
      createConflict(
        `imageMaximumGCAge (${config.imageMaximumGCAge}) must be 0s or greater than imageMinimumGCAge (${config.imageMinimumGCAge})`,
        "imageMaximumGCAge",
        "imageMinimumGCAge",
      ),
    config.serializeImagePulls &&
      parallel !== undefined &&
      parallel > 1 &&
      createConflict(
        `found ${parallel}, must be 1 unless serializeImagePulls is false`,
        "maxParallelImagePulls",
        "serializeImagePulls",
      ),
    config.preloadedImagesVerificationAllowlist.length > 0 &&
      config.imagePullCredentialsVerificationPolicy !== checkedByAllowlist &&
      createConflict(
        `must be empty unless imagePullCredentialsVerificationPolicy is ${checkedByAllowlist}`,
        "preloadedImagesVerificationAllowlist",
      ),
  ];
}

function checkAllocatable(config: KubeletConfiguration): ReturnType<Rule> {
  const levels = config.enforceNodeAllocatable;
  const has = (level: (typeof levels)[number]) => levels.includes(level);
  const conflictOfLevels = (message: string, ...others: readonly FieldPath[]) =>
    createConflict(message, "enforceNodeAllocatable", ...others);
  const repeated = levels.find((level, index) => levels.indexOf(level) !== index);
  const needsCgroups = levels.find((level) => level !== "none");
  return [
    repeated !== undefined && conflictOfLevels(`${repeated} occurs twice`),
    has("none") && levels.length > 1 && conflictOfLevels('"none" must stand alone'),
    needsCgroups !== undefined &&
      !config.cgroupsPerQOS &&
      conflictOfLevels(`found ${needsCgroups}, must be [] or ["none"] while cgroupsPerQOS is false`, "cgroupsPerQOS"),
    ...(["system", "kube"] as const).flatMap((owner) => [
      has(`${owner}-reserved`) &&
        has(`${owner}-reserved-compressible`) &&
        conflictOfLevels(`${owner}-reserved and ${owner}-reserved-compressible exclude each other`),
      (has(`${owner}-reserved`) || has(`${owner}-reserved-compressible`)) &&
        config[`${owner}ReservedCgroup`] === "" &&
        conflictOfLevels(`found ${owner}-reserved, which needs ${owner}ReservedCgroup`),
    ]),
  ];
}

function checkReservedCpus(config: KubeletConfiguration): ReturnType<Rule> {
  const other = (["systemReservedCgroup", "kubeReservedCgroup"] as const).find((field) => config[field] !== "");
  return [
    config.reservedSystemCPUs !== "" &&
      other !== undefined &&
      createConflict(`reservedSystemCPUs cannot be set together with ${other}`, "reservedSystemCPUs", other),
  ];
}

function checkReservedMemory(config: KubeletConfiguration): ReturnType<Rule> {
  const seen = new Set<string>();
  const repeated = config.reservedMemory
    .flatMap(({ numaNode, limits }) => Object.keys(limits).map((resource) => `${resource} of NUMA node ${numaNode}`))
    .find((name) => seen.size === seen.add(name).size);
  return [repeated !== undefined && createConflict(`${repeated} is reserved twice`, "reservedMemory")];
}

function checkEviction(config: KubeletConfiguration): ReturnType<Rule> {
  const signalWithoutGracePeriod = Object.keys(config.evictionSoft).find(
    (signal) => !Object.hasOwn(config.evictionSoftGracePeriod, signal),
  );
  return [
    signalWithoutGracePeriod !== undefined &&
      createConflict(
        `${signalWithoutGracePeriod} needs a grace period in evictionSoftGracePeriod`,
        "evictionSoft",
        "evictionSoftGracePeriod",
      ),
  ];
}

function checkShutdown(config: KubeletConfiguration): ReturnType<Rule> {
  const { shutdownGracePeriod, shutdownGracePeriodCriticalPods } = config;
  const [all, critical] = [validDurationMs(shutdownGracePeriod), validDurationMs(shutdownGracePeriodCriticalPods)];
  const isTooShort = (ms: number) => ms > 0 && ms < 1000;
  const message = (text: string) => `found ${text}, must be 0s or at least 1s`;
  return [
    critical > all &&
      createConflict(
        `shutdownGracePeriodCriticalPods (${shutdownGracePeriodCriticalPods}) must not be longer than shutdownGracePeriod (${shutdownGracePeriod})`,
        "shutdownGracePeriodCriticalPods",
        "shutdownGracePeriod",
      ),
    isTooShort(all) && createConflict(message(shutdownGracePeriod), "shutdownGracePeriod"),
    isTooShort(critical) && createConflict(message(shutdownGracePeriodCriticalPods), "shutdownGracePeriodCriticalPods"),
    config.shutdownGracePeriodByPodPriority.length > 0 &&
      (all > 0 || critical > 0) &&
      createConflict(
        "shutdownGracePeriodByPodPriority cannot be set together with shutdownGracePeriod",
        "shutdownGracePeriodByPodPriority",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
      ),
  ];
}

function checkGates(config: KubeletConfiguration, gates: Gates): ReturnType<Rule> {
  const requireGate = (gate: keyof Gates, isUsed: boolean, field: FieldPath) =>
    isUsed && !gates[gate] && createConflict(`needs the feature gate ${gate}`, field);
  const hasShutdownPeriod =
    validDurationMs(config.shutdownGracePeriod) > 0 || validDurationMs(config.shutdownGracePeriodCriticalPods) > 0;
  return [
    requireGate("CustomCPUCFSQuotaPeriod", validDurationMs(config.cpuCFSQuotaPeriod) !== 100, "cpuCFSQuotaPeriod"),
    requireGate("RotateKubeletServerCertificate", config.serverTLSBootstrap, "serverTLSBootstrap"),
    requireGate("GracefulNodeShutdown", hasShutdownPeriod, "shutdownGracePeriod"),
    requireGate(
      "GracefulNodeShutdownBasedOnPodPriority",
      config.shutdownGracePeriodByPodPriority.length > 0,
      "shutdownGracePeriodByPodPriority",
    ),
    requireGate(
      "KubeletCrashLoopBackOffMax",
      config.crashLoopBackOff.maxContainerRestartPeriod !== undefined,
      "crashLoopBackOff.maxContainerRestartPeriod",
    ),
    requireGate(
      "KubeletEnsureSecretPulledImages",
      config.imagePullCredentialsVerificationPolicy !== undefined,
      "imagePullCredentialsVerificationPolicy",
    ),
    ...unmetDependencies(gates).map((message) => createConflict(message, "featureGates")),
    requireGate("MemoryQoS", config.memoryReservationPolicy === "TieredReservation", "memoryReservationPolicy"),
  ];
}

function checkLogging({ logging }: KubeletConfiguration, gates: Gates): ReturnType<Rule> {
  const { flushFrequency } = logging;
  const isFlushed = typeof flushFrequency === "number" ? flushFrequency > 0 : validDurationMs(flushFrequency) > 0;
  return [
    !isFlushed && createConflict("must be greater than zero", "logging.flushFrequency"),
    logging.vmodule.length > 0 &&
      logging.format !== "text" &&
      createConflict("works only with logging.format text", "logging.vmodule"),
    ...(["text", "json"] as const).flatMap((format) => {
      const { splitStream, infoBufferSize } = logging.options[format];
      return [
        splitStream &&
          !gates.LoggingAlphaOptions &&
          createConflict("needs the feature gate LoggingAlphaOptions", `logging.options.${format}.splitStream`),
        !/^[+-]?[0.]+[A-Za-z]*$/.test(String(infoBufferSize)) &&
          !gates.LoggingAlphaOptions &&
          createConflict("needs the feature gate LoggingAlphaOptions", `logging.options.${format}.infoBufferSize`),
      ];
    }),
  ];
}

function checkRest(config: KubeletConfiguration): ReturnType<Rule> {
  const ids = config.userNamespaces?.idsPerPod ?? 0;
  return [
    config.systemCgroups !== "" && config.cgroupRoot === "" && createConflict("needs cgroupRoot", "systemCgroups"),
    config.enableSystemLogQuery === true &&
      !config.enableSystemLogHandler &&
      createConflict("needs enableSystemLogHandler", "enableSystemLogQuery"),
    config.runOnce && createConflict("found true, must be false: Kubernetes has removed it", "runOnce"),
    config.registerWithTaints.some(({ timeAdded }) => timeAdded !== undefined) &&
      createConflict("timeAdded must not be set", "registerWithTaints"),
    new Set(config.tlsCurvePreferences).size !== config.tlsCurvePreferences.length &&
      createConflict("a curve occurs twice", "tlsCurvePreferences"),
    ids % 65_536 !== 0 && createConflict(`found ${ids}, must be a multiple of 65536`, "userNamespaces.idsPerPod"),
  ];
}
