import { mkdirSync, readdirSync, readlinkSync, renameSync, rmdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path/posix";
import { takeLock } from "../../host/lock.ts";
import { CniError, cniCodes } from "../error.ts";
import { builtinCodes } from "./errors.ts";
import { codeOf, ifPresent } from "./if-present.ts";

/** In the folder of a network: a symlink to the cache that the network belongs to. */
const CLAIM = "claimed-by";

const claimPath = (folder: string): string => join(folder, CLAIM);

/**
 * Makes a network belong to a cache of results. Executors with different caches know neither the attachments nor the locks of each other, so
 * GC of one would remove the pods of the other. The claim lasts until the network is removed; that of a cache that no longer exists is
 * replaced. `folder` is the record of the network, which may not exist yet. Throws `CniError` if the network belongs to another cache.
 */
export function claimNetwork(folder: string, network: string, cacheDir: string): void {
  for (;;) {
    const owner = readClaim(folder);
    if (owner === undefined) createClaim(folder, cacheDir);
    else if (isSameFolder(owner, cacheDir)) return;
    else if (exists(owner)) throw refusal({ folder, network, owner, cacheDir });
    else replaceClaim(folder, owner, cacheDir);
  }
}

/** Throws `CniError` with code 50 if the network belongs to another cache. Changes nothing. */
export function checkClaim(folder: string, network: string, cacheDir: string): void {
  const owner = findOtherOwner(folder, cacheDir);
  if (owner === undefined) return;
  const claim = { folder, network, owner, cacheDir };
  throw new CniError(cniCodes.notAvailable, `${belongsTo(claim)}. ${SEPARATE}; ${byHand(claim)}`);
}

/** The other cache that a network belongs to; undefined if it belongs to none, to this one, or to one that no longer exists. */
export function findOtherOwner(folder: string, cacheDir: string): string | undefined {
  const owner = readClaim(folder);
  return owner === undefined || isSameFolder(owner, cacheDir) || !exists(owner) ? undefined : owner;
}

/** Removes the folder of a network, the claim last. A folder that another cache claims after that stays. */
export function removeRecord(folder: string): void {
  const others = (ifPresent(() => readdirSync(folder)) ?? []).filter((name) => name !== CLAIM);
  for (const name of others) rmSync(join(folder, name), { recursive: true, force: true });
  rmSync(claimPath(folder), { force: true });
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!["ENOENT", "ENOTEMPTY"].includes(codeOf(error))) throw error;
  }
}

type Claim = Readonly<Record<"folder" | "network" | "owner" | "cacheDir", string>>;

const belongsTo = ({ folder, network, owner, cacheDir }: Claim): string =>
  `the built-in network ${network} belongs to the cache ${owner}, as ${claimPath(folder)} says, and this call has the cache ${cacheDir}`;

const refusal = (claim: Claim): CniError => {
  const removal = `, or remove this one by berth cni uninstall --cache-dir ${claim.owner}`;
  return new CniError(builtinCodes.cache, `${belongsTo(claim)}. ${SEPARATE}${removal}; ${byHand(claim)}`);
};

/** Of two agents with one cache, each would delete the pods of the other. */
const SEPARATE = "Give one of the two networks another name, bridge and ranges by a list of its own";

const byHand = ({ owner }: Claim): string => `to call berth cni by hand, add --cache-dir ${owner}`;

function readClaim(folder: string): string | undefined {
  return ifPresent(() => readlinkSync(claimPath(folder)));
}

/** Does nothing if another process has been faster: the kernel lets one of them create it. */
function createClaim(folder: string, cacheDir: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    symlinkSync(resolve(cacheDir), claimPath(folder));
  } catch (error) {
    // ENOENT: another process has removed the network since.
    if (!["EEXIST", "ENOENT"].includes(codeOf(error))) throw error;
  }
}

/**
 * Replaces the claim of a cache that no longer exists, under a lock: otherwise a second process that has seen the old claim could replace the
 * new one. There is a claim all the time, so no process creates one meanwhile.
 */
function replaceClaim(folder: string, owner: string, cacheDir: string): void {
  const lock = takeLock(join(folder, `${CLAIM}.lock`), `pid ${process.pid}`);
  if (!lock.held)
    throw new CniError(cniCodes.tryAgainLater, `another process, ${lock.holder}, replaces ${claimPath(folder)}`);
  try {
    if (readClaim(folder) !== owner) return;
    const temporary = `${claimPath(folder)}.tmp`;
    rmSync(temporary, { force: true });
    symlinkSync(resolve(cacheDir), temporary);
    renameSync(temporary, claimPath(folder));
  } finally {
    lock.remove();
  }
}

const exists = (path: string): boolean => ifPresent(() => statSync(path)) !== undefined;

/** Whether two paths lead to one folder, or are the same path to none. */
function isSameFolder(one: string, other: string): boolean {
  if (resolve(one) === resolve(other)) return true;
  const [a, b] = [one, other].map((path) => ifPresent(() => statSync(path)));
  return a !== undefined && a.ino === b?.ino && a.dev === b.dev;
}
