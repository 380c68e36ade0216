import { isCertainlyLater, isNumber } from "../../../proto/kubernetes/values/resource-version.ts";

/**
 * Whether `version` is a newer state of an object than `than`. A resourceVersion that is not a number (of a server
 * other than kube-apiserver) cannot be compared and counts as newer.
 */
export function isNewer(version: string | undefined, than: string | undefined): boolean {
  return isNumber(version) && isNumber(than) ? isCertainlyLater(version, than) : version !== than;
}

/** A complete list that contained the object. */
export interface ListSnapshot {
  readonly resourceVersion: string;
  /** The list is older than what the server has returned before: its history was replaced. */
  readonly isRolledBack: boolean;
}

/**
 * Whether an object that the server returns replaces the known one. A list is complete up to its version: if the known
 * object is newer than the one in the list, and still not newer than the list, its state was reverted, as by a restored
 * backup.
 */
export function replaces(returned: string | undefined, known: string | undefined, list?: ListSnapshot): boolean {
  if (isNewer(returned, known)) return true;
  if (list === undefined || returned === known) return false;
  return list.isRolledBack || !isNewer(known, list.resourceVersion);
}
