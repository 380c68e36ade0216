// Prepares a fresh clone, then runs the given TypeScript program with bun:
//
//   node setup.mjs [--no-machine] PROGRAM [ARGUMENT...]
//
// Plain JavaScript for node 18 and later, since it runs before any package is installed. With --no-machine it only
// installs npm packages, which needs neither root nor Debian.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, existsSync, constants as modes, readFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));

/** The programs that pods need on the machine, with the Debian packages that contain them. */
const machinePrograms = { iptables: "iptables", "iptables-restore": "iptables", ip: "iproute2", mount: "mount" };

class SetupError extends Error {}

async function main([first, ...rest]) {
  const needsMachine = first !== "--no-machine";
  const [program, ...args] = needsMachine ? [first, ...rest] : rest;
  if (needsMachine) {
    const refusal = refuse({
      platform: process.platform,
      uid: process.getuid?.() ?? -1,
      osRelease: existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "",
      hasApt: onPath("apt-get") && onPath("dpkg"),
      canBuild: ["node_modules", "dist"].every((folder) => isWritable(join(root, folder))),
    });
    if (refusal !== undefined) throw new SetupError(refusal);
  }
  await installNpmPackages();
  await installBun();
  if (needsMachine) await installDebianPackages();
  if (program !== undefined) await runProgram(program, args);
}

/**
 * Returns why this machine cannot run pods and what would help; undefined when it can.
 * @param {{ platform: string, uid: number, osRelease: string, hasApt: boolean, canBuild: boolean }} machine
 * @returns {string | undefined}
 */
export function refuse({ platform, uid, osRelease, hasApt, canBuild }) {
  const name = /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? platform;
  const where = canBuild ? "here" : "in a clone of your own";
  const withoutMachine = `\`npm run check\` and \`npm run build\` still work ${where}`;
  if (platform !== "linux") return `pods need Linux, and this is ${name}`;
  if (!/^ID="?debian"?$/m.test(osRelease) || !hasApt)
    return `the set-up takes its container runtime from Debian's packages by apt-get and dpkg, and this is ${name}; ${withoutMachine}`;
  if (uid !== 0)
    return `running pods means mounts, bridges and cgroups, which only root may make: run this as root; ${withoutMachine}`;
  return undefined;
}

/**
 * The paths of package-lock.json that are missing from node_modules or have another version there.
 * @param {{ packages: Record<string, { version?: string, optional?: boolean, devOptional?: boolean }> }} lock
 * @param {{ packages: Record<string, { version?: string }> } | undefined} installed node_modules/.package-lock.json
 * @returns {string[]}
 */
export function missingPackages(lock, installed) {
  return Object.entries(lock.packages)
    .filter(([path, { optional }]) => path !== "" && optional !== true)
    .filter(([path, { version }]) => installed?.packages[path]?.version !== version)
    .map(([path]) => path);
}

/**
 * Masks server addresses in the output of a program, since the mirror that a machine uses is private.
 * @param {string} text
 */
export function maskHosts(text) {
  return text.replace(/\b(https?:\/\/)[^\s/'"]+/g, "$1…");
}

async function installNpmPackages() {
  const read = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined);
  const missing = missingPackages(
    read(join(root, "package-lock.json")),
    read(join(root, "node_modules", ".package-lock.json")),
  );
  if (missing.length === 0) return;
  await step(`npm packages: installing ${missing.length} missing ones`, "npm", ["ci", "--no-audit", "--no-fund"]);
}

/** An install script downloads bun's binary; npm may be configured not to run install scripts. */
async function installBun() {
  if (spawnSync(bunPath(), ["--version"]).status === 0) return;
  await step("bun: downloading its binary", process.execPath, [join(root, "node_modules", "bun", "install.js")]);
  if (spawnSync(bunPath(), ["--version"]).status !== 0)
    throw new SetupError("bun is installed and does not start: it needs an x86-64 or arm64 machine with glibc");
}

const bunPath = () => join(root, "node_modules", ".bin", "bun");

async function installDebianPackages() {
  const missing = Object.entries(machinePrograms).filter(([program]) => !onPath(program));
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map(([, name]) => name))];
  const lists = spawnSync("apt-cache", ["policy", ...packages], { encoding: "utf8" }).stdout;
  const known = (lists.match(/Candidate: (?!\(none\))/g) ?? []).length;
  if (known < packages.length) await step("Debian: updating the package lists", "apt-get", ["update", "-q"]);
  const install = ["install", "-y", "-q", "--no-install-recommends", ...packages];
  await step(`Debian: installing ${packages.join(", ")}`, "apt-get", install);
}

/** Runs one set-up program: prints its title, its duration, and its output only when it fails. */
async function step(title, command, args) {
  const started = performance.now();
  process.stdout.write(`${title} … `);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const child = spawn(command, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const problem = await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) =>
      resolve(code === 0 ? undefined : `it ended with ${signal ?? `code ${code}`}`),
    );
  });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(`${problem === undefined ? "done" : "failed"} in ${seconds} s\n`);
  if (problem === undefined) return;
  process.stderr.write(maskHosts(output.split("\n").slice(-20).join("\n")));
  throw new SetupError(`${title}: \`${command} ${args[0]}\` failed: ${problem}`);
}

function onPath(program) {
  const folders = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/sbin"];
  return folders.some((folder) => existsSync(join(folder, program)));
}

/** Whether this user may write to a directory, or may create it. */
function isWritable(folder) {
  try {
    accessSync(existsSync(folder) ? folder : dirname(folder), modes.W_OK);
    return true;
  } catch {
    // The directory belongs to another user, or its file system is read-only.
    return false;
  }
}

/** Runs the program with bun, forwards signals to it, and exits with its code; as a shell does, with 128 + the signal that ended it. */
async function runProgram(program, args) {
  const env = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin` };
  const child = spawn(bunPath(), [join(root, program), ...args], { cwd: root, env, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  process.exitCode = await new Promise((resolve) => {
    child.once("error", () => resolve(1));
    child.once("close", (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
  });
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    process.stderr.write(`berth: ${error.message}\n`);
    process.exitCode = 1;
  }
}
