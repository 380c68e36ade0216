import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Suite } from "./suite.ts";

const minuteMs = 60_000;
const program = (name: string) => join("node_modules", ".bin", name);
const step = (name: string, ...argv: readonly string[]): Suite => ({
  name,
  argv,
  hasReport: false,
  timeoutMs: 5 * minuteMs,
});

/** Tests that wait for minutes, and contracts on releases that few nodes run: `npm run test:extended` runs them. */
const extendedFolder = /^test\/(contract|e2e)\/extended\//;
/** A test file that contains this word runs on several releases of containerd. */
const versionsMarker = "versionsUnderTest";
/** A test file that contains this call runs on the form of `berth-cni` that BERTH_DELEGATE_FORM names. */
const formsMarker = "await delegateForm()";
/**
 * End-to-end tests that run while no other suite does: they measure fractions of seconds, or use what all beds of the
 * machine share.
 */
const runsAlone =
  /^test\/(contract\/clock|e2e\/(bed|log-reader|runtime-freeze|runtime-kill|cluster\/(pods|random-pods)))\.test\.ts$/;
/**
 * The longest suites: they begin first, in this order, so that the queues end at about the same time. Those of the memory and
 * of the outages run beside each other; the differential one keeps both processors busy, so it runs beside short ones.
 * @internal
 */
export const LONGEST_FIRST: readonly string[] = [
  "e2e memory",
  "e2e agent-kill",
  "e2e cluster outages",
  "e2e cluster differential",
  "e2e cluster faults",
  "e2e cluster workloads",
  "e2e cluster random-pods",
  "e2e cluster agent-restart",
  "e2e cluster kubelet-takeover",
  "e2e cluster takeover-of-ended-pods",
];
/** Tests with a hundred pods or more, which keep a processor busy: one of them runs at a time. */
const heavy = /^test\/e2e\/cluster\/(differential|faults|outages|workloads)\.test\.ts$/;

/** Tests that mostly wait, for back-offs, grace periods and timeouts: they use between a tenth and a third of a processor. */
const idle =
  /^test\/(contract\/(runtime|streaming)-containerd-[\d.]+|e2e\/(agent-restart|hooks|restart-policy|unrunnable-pod|cluster\/rotation))\.test\.ts$/;

/** Test files that need root and a container runtime, Go, or minutes. All others are part of the quick check. */
const needsMachine = /^test\/e2e\/|^test\/contract\/(?!.*-fake(\.long)?\.test\.ts$)/;
/**
 * The docs conformance tests are many and find little that unit tests and scenarios miss, so only `npm test` runs them.
 */
const docsConformance = /^test\/docs-conformance\//;
/** The whole agent on fakes, each scenario repeated for every death. */
const scenarios = /^test\/scenarios\//;
/**
 * The timeout of a test on fakes with the lowest priority. It takes some hundredths of a second on an idle machine; other
 * suites may keep all processors busy for minutes.
 */
const BACKGROUND_TIMEOUT_MS = 5 * minuteMs;
/** The timeout of a test on real parts that sets none itself: it ends what hangs, and measures nothing. */
const MACHINE_TIMEOUT_MS = 10 * minuteMs;
const folders = "{proto,host,probe-net,cri,kube,cni,cgroups,csi,devices,agent,cli,test}";

/** Tests without a machine that take several seconds: `npm test` runs them, the quick check does not. */
const long = /\.long\.test\.ts$/;

/** A test file that contains this call needs the upstream programs. */
const upstreamMarker = "skipWithoutPrograms(";

/** A test file with one of these reads files of the clone, or starts a program of it. */
const clonePathMarker = /import\.meta\.(dir|path|filename|url)|process\.cwd\(\)|Bun\.Glob|execPath/;

/**
 * A test file. `isLong`: `npm run check` leaves it out. `alwaysRuns`: `npm run check` runs it after any change, since its
 * imports do not show all that it depends on. `isFuzz`: it reads the environment variable FUZZ_RUNS, the number of random
 * inputs. `isScenario`: it repeats the whole agent for every death, unless DIE_EVERY says otherwise. `isExtended`: only
 * `npm run test:extended` runs it. `hasVersions`: it runs on the releases of containerd in BERTH_CONTAINERD. `hasForms`: it
 * runs on the form of `berth-cni` in BERTH_DELEGATE_FORM. `needsUpstream`: the upstream programs must be built first.
 */
export interface TestFile {
  readonly path: string;
  readonly isQuick: boolean;
  readonly isLong: boolean;
  readonly alwaysRuns: boolean;
  readonly isFuzz: boolean;
  readonly isScenario: boolean;
  readonly isExtended: boolean;
  readonly hasVersions: boolean;
  readonly hasForms: boolean;
  readonly needsUpstream: boolean;
}

/** All test files below `root`, sorted by path. */
export async function findTests(root: string): Promise<readonly TestFile[]> {
  const paths = [...new Bun.Glob(`${folders}/**/*.test.ts`).scanSync(root)].toSorted();
  return await Promise.all(
    paths.map(async (path) => {
      const text = await readFile(join(root, path), "utf8");
      const isQuick = !needsMachine.test(path) && !docsConformance.test(path);
      const needsUpstream = !isQuick && text.includes(upstreamMarker);
      const isFuzz = text.includes('env["FUZZ_RUNS"]');
      const contains = (marker: string) => !isQuick && text.includes(marker);
      const [hasVersions, hasForms] = [contains(versionsMarker), contains(formsMarker)];
      const [isScenario, isExtended, isLong] = [scenarios.test(path), extendedFolder.test(path), long.test(path)];
      const isTestOfTests = path.startsWith("test/") && !isScenario;
      const alwaysRuns = isQuick && (isTestOfTests || clonePathMarker.test(text));
      return {
        path,
        isQuick,
        isLong,
        alwaysRuns,
        isFuzz,
        isScenario,
        isExtended,
        hasVersions,
        hasForms,
        needsUpstream,
      };
    }),
  );
}

/** The docs conformance tests: they check the statements of Kubernetes' documentation. */
export function docsConformanceSuite(files: readonly TestFile[]): Suite {
  const docsTests = files.filter(({ path }) => docsConformance.test(path));
  return testSuite("docs conformance", docsTests, {}, BACKGROUND_TIMEOUT_MS);
}

/** The files of the check in `npm test`: the others without a machine are in suites of their own. */
export const checkedFiles = (files: readonly TestFile[]): readonly TestFile[] =>
  files.filter(({ isQuick, isFuzz, isScenario, isLong }) => isQuick && !isFuzz && !isScenario && !isLong);

/** The long tests without a machine. Long scenarios and fuzz tests are in the suites of these. */
export function longSuite(files: readonly TestFile[]): Suite {
  const all = files.filter((file) => file.isLong && file.isQuick && !file.isScenario && !file.isFuzz);
  return testSuite("long tests", all, {}, BACKGROUND_TIMEOUT_MS);
}

/** In `npm test` the agent dies after one of so many calls of a scenario, which the seed selects; in the extended run after each. */
const CALLS_PER_DEATH = "5";

/** The scenarios with deaths, in three suites. The variables DIE_EVERY and DIE_BOTH of `env` choose other deaths. */
export function scenarioSuites(
  files: readonly TestFile[],
  { DIE_EVERY, DIE_BOTH }: Readonly<Record<string, string | undefined>> = process.env,
): readonly Suite[] {
  const deaths = { DIE_EVERY: DIE_EVERY ?? (DIE_BOTH === "1" ? "1" : CALLS_PER_DEATH) };
  const all = files.filter(({ isScenario, isFuzz }) => isScenario && !isFuzz);
  const parts = [0, 1, 2].map((part) => all.filter((_, index) => index % 3 === part));
  return parts.map((part, index) =>
    testSuite(`scenarios with deaths ${index + 1}/3`, part, deaths, BACKGROUND_TIMEOUT_MS),
  );
}

/** A `bun test` over `files`, one file after the other. `env` is added to its environment. */
export function testSuite(
  name: string,
  files: readonly TestFile[],
  env: Readonly<Record<string, string>> = {},
  timeoutMs = 5000,
): Suite {
  const paths = files.map(({ path }) => `./${path}`);
  const unavailable = files.length === 0 ? "there are no such tests yet" : undefined;
  const argv = [process.execPath, "test", "--only-failures", `--timeout=${timeoutMs}`, ...paths];
  return { name, argv, hasReport: true, env, timeoutMs: 30 * minuteMs, unavailable };
}

/**
 * Limits a suite to the test files that a change since `commit` can affect, as their imports say, also a change that is not
 * committed. There may be none.
 */
export const limitToAffected = (suite: Suite, commit: string): Suite => ({
  ...suite,
  argv: [...suite.argv, `--changed=${commit}`, "--pass-with-no-tests"],
  mayBeEmpty: true,
});

/**
 * The fuzz tests, each with `inputs` random inputs, that of manifests with `manifests`, unless FUZZ_RUNS of `env` says otherwise.
 * The longest come first, so that both queues end at about the same time.
 */
export function fuzzSuites(
  files: readonly TestFile[],
  { inputs, manifests = inputs }: { readonly inputs: number; readonly manifests?: number },
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly Suite[] {
  const fuzz = files.filter(({ isFuzz }) => isFuzz).toSorted((a, b) => Number(isSlowFuzz(b)) - Number(isSlowFuzz(a)));
  return fuzz.map((file) => {
    const runs = env["FUZZ_RUNS"] ?? String(isManifestFuzz(file) ? manifests : inputs);
    return testSuite(`fuzz ${titleOf(file.path)}`, [file], { FUZZ_RUNS: runs }, 20 * minuteMs);
  });
}

/** Fuzz tests of whole manifests, of the whole agent and of the whole configuration take longest. */
const isSlowFuzz = ({ path }: TestFile) => /^(test\/scenarios|agent\/config|agent\/desired\/static)\//.test(path);
/** The fuzz test of manifests. The other slow ones divide the number of inputs themselves. */
const isManifestFuzz = ({ path }: TestFile) => path.startsWith("agent/desired/static/");

/** The name of a file's suite: `e2e bed` for `test/e2e/bed.test.ts`. */
const titleOf = (path: string) =>
  path
    .replace(/(\.fuzz)?\.test\.ts$/, "")
    .replace(/^test\//, "")
    .replaceAll("/", " ");

/** The place among the longest; all others come after them. */
function rankOf({ path }: TestFile): number {
  const rank = LONGEST_FIRST.indexOf(titleOf(path));
  return rank === -1 ? LONGEST_FIRST.length : rank;
}

/** The contract tests on real parts and the end-to-end tests. In each group the longest come first. */
export interface MachineSuites {
  /** Those without upstream programs. */
  readonly plain: readonly Suite[];
  /** Those with upstream programs: one heavy one runs at a time. */
  readonly upstream: readonly Suite[];
  readonly heavy: readonly Suite[];
  /** Those that mostly wait, without and with upstream programs. */
  readonly idle: readonly Suite[];
  readonly idleUpstream: readonly Suite[];
  /** Those that run while no other suite does, without and with upstream programs. */
  readonly alone: readonly Suite[];
  readonly aloneUpstream: readonly Suite[];
}

/** The suites that need root and a container runtime: the contracts on real parts, and the end-to-end tests. */
export function machineSuites(files: readonly TestFile[]): MachineSuites {
  const all = files.filter(
    ({ path, isQuick, isFuzz, isExtended }) =>
      !isQuick && !isFuzz && !isExtended && /^test\/(contract|e2e)\//.test(path),
  );
  const groupOf = ({ path, needsUpstream }: TestFile) => {
    if (runsAlone.test(path)) return needsUpstream ? "aloneUpstream" : "alone";
    if (heavy.test(path)) return "heavy";
    if (idle.test(path)) return needsUpstream ? "idleUpstream" : "idle";
    return needsUpstream ? "upstream" : "plain";
  };
  const suites = (group: keyof MachineSuites) =>
    all
      .filter((file) => groupOf(file) === group)
      .toSorted((a, b) => rankOf(a) - rankOf(b))
      .map((file) => testSuite(titleOf(file.path), [file], {}, MACHINE_TIMEOUT_MS));
  return {
    ...{ plain: suites("plain"), upstream: suites("upstream"), heavy: suites("heavy"), alone: suites("alone") },
    ...{ idle: suites("idle"), idleUpstream: suites("idleUpstream"), aloneUpstream: suites("aloneUpstream") },
  };
}

/**
 * The contract tests on real parts and the end-to-end tests that only `npm run test:extended` runs: those of the
 * folders, those of several releases of containerd on the releases that `npm test` leaves out, and those of the plugin
 * `berth-cni` with the form that it leaves out.
 */
export function extendedSuites(files: readonly TestFile[]): readonly Suite[] {
  const suite = (file: TestFile, suffix = "", env: Readonly<Record<string, string>> = {}) =>
    testSuite(`${titleOf(file.path)}${suffix}`, [file], env, MACHINE_TIMEOUT_MS);
  const ofVersions = files.filter(({ hasVersions }) => hasVersions);
  return [
    ...files.filter(({ isExtended }) => isExtended).map((file) => suite(file)),
    ...["1.7,2.0", "1.6"].flatMap((versions) =>
      ofVersions.map((file) => suite(file, ` on containerd ${versions}`, { BERTH_CONTAINERD: versions })),
    ),
    ...files
      .filter(({ hasForms }) => hasForms)
      .map((file) => suite(file, " with the whole program", { BERTH_DELEGATE_FORM: "whole" })),
  ];
}

/**
 * The shortest checks of the agent in an emulated guest with systemd. It runs alone, because containerd's own time limits are
 * short for an emulated processor that gets little of a busy machine's. On an idle one of two processors it takes less than
 * four minutes. The guest has an x86-64 processor, so it runs there alone.
 */
export function guestSuites(architecture: NodeJS.Architecture): readonly Suite[] {
  const argv = [process.execPath, "test/vm/run.ts", "node", "--short"];
  return architecture === "x64" ? [{ name: "vm node short", argv, hasReport: false, timeoutMs: 20 * minuteMs }] : [];
}

/** The same suite with this seed. */
export const withSeed = (suite: Suite, seed: string): Suite => ({ ...suite, env: { ...suite.env, BERTH_SEED: seed } });

/** The same suite with the lowest priority for the processor. */
export const withLowPriority = (suite: Suite): Suite => ({ ...suite, argv: ["nice", "-n", "19", ...suite.argv] });

/**
 * Runs the suites in three queues, those with upstream programs after `built`. The first queue begins then, since the build
 * takes minutes of both processors if Go's caches are empty: it alone takes the heavy ones, and then those of a control
 * plane. The second one begins with the others. The third one takes those alone that hardly need a
 * processor: beside what only computes, a third one of the others keeps two cores so busy that tests with time limits
 * fail by chance. Once that has `computed`, a further queue takes any of them.
 */
export async function runInQueues(
  suites: Omit<MachineSuites, "alone" | "aloneUpstream">,
  built: Promise<unknown>,
  run: (suite: Suite) => Promise<unknown>,
  computed: Promise<unknown>,
): Promise<void> {
  const [plain, upstream, heavySuites] = [[...suites.plain], [...suites.upstream], [...suites.heavy]];
  const [idle, idleUpstream] = [[...suites.idle], [...suites.idleUpstream]];
  let isBuilt = false;
  const whenBuilt = built.then(() => {
    isBuilt = true;
  });
  const queue = async (...groups: readonly Suite[][]) => {
    const isReady = (group: Suite[]) => group.length > 0 && (isBuilt || group === plain || group === idle);
    while (groups.some((group) => group.length > 0)) {
      const suite = groups.find(isReady)?.shift();
      await (suite === undefined ? whenBuilt : run(suite));
    }
  };
  const queues = Promise.all([
    whenBuilt.then(() => queue(heavySuites, upstream, plain, idleUpstream, idle)),
    queue(plain, upstream, idleUpstream, idle),
    queue(idleUpstream, idle),
  ]);
  const further = Promise.race([queues, computed]).then(() => queue(upstream, plain, idleUpstream, idle));
  await Promise.all([queues, further]);
}

/**
 * The checks that need only the npm packages. Types and unused code keep a cache below `node_modules/.cache` for files
 * that have not changed. The linter has none: it reads the files `linted`, all of the clone if that is left out.
 */
export function staticSuites(linted?: readonly string[]): readonly Suite[] {
  const pureComponents = ["agent/decide", "agent/translate"].filter((component) =>
    existsSync(join(component, "tsconfig.json")),
  );
  const incremental = (name: string) => [
    "--incremental",
    "--tsBuildInfoFile",
    join("node_modules", ".cache", "berth", `${name}.tsbuildinfo`),
  ];
  const productionCache = ["--cache-location", join("node_modules", ".cache", "knip-production")];
  return [
    // Each further checker would check the large library types again.
    step("types", program("tsc"), "--noEmit", "-p", ".", "--checkers", "1", ...incremental("types")),
    ...pureComponents.map((component) =>
      step(`types of ${component}`, program("tsc"), "--noEmit", "-p", component, ...incremental(basename(component))),
    ),
    ...lintSuites(linted),
    // Knip's entry point for bun starts twice as fast as with node. One run knows either all uses or those of the product.
    step("unused code", process.execPath, program("knip-bun"), "--cache"),
    step(
      "code that only tests use",
      process.execPath,
      program("knip-bun"),
      "--production",
      "--cache",
      ...productionCache,
    ),
  ];
}

/** Generated files may be among `linted`: Biome's configuration leaves them out, which is no error. */
function lintSuites(linted: readonly string[] | undefined): readonly Suite[] {
  if (linted?.length === 0) return [];
  const paths = linted === undefined ? [] : ["--no-errors-on-unmatched", ...linted];
  return [step("format and lint", program("biome"), "ci", "--colors=off", "--error-on-warnings", ...paths)];
}
