import { createKeyedCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { createRetriedWrites } from "../../../host/async/retried-writes.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import { isObject } from "../../../proto/is-object.ts";
import type { KnownTrustAnchors, ReadTrustAnchors } from "../../../proto/kubernetes/certificates.ts";
import type { BoundClaim, KnownClaim } from "../../../proto/kubernetes/claims.ts";
import type { ReferencedObject, ReferencedObjects } from "../../../proto/kubernetes/references.ts";
import type { IssuedToken, KnownToken } from "../../../proto/kubernetes/token-references.ts";
import { mountOptionAnnotation, volumeGidAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { createEarlierFiles, KeptObjectError } from "./earlier-files.ts";

/**
 * Keeps what the pods of this node refer to in files that root alone reads, for a boot without the API server:
 * `--keep-referenced-objects`. Secrets, ConfigMaps and tokens; of claims what the mounts of their volumes need. Every method only changes memory; the files follow.
 */
export interface KeptObjects {
  /**
   * Reads the files of an earlier agent, each once. Never rejects. A file that this release cannot decode is set aside, and
   * one that cannot be read, as after an I/O error, stays: the object of either counts as unknown.
   */
  load(): Promise<void>;
  /** The API server has answered for a Secret or ConfigMap: keeps the object, or removes it if it is absent. */
  updateObject(key: string, object: ReferencedObject | "absent"): void;
  /** The same for a token. An outage of the API server removes nothing. */
  updateToken(key: string, token: KnownToken): void;
  /** The same for a claim, with the labels of this node: they decide whether it may mount the volume. */
  updateClaim(key: string, claim: KnownClaim, nodeLabels: NodeLabels | undefined): void;
  /** The labels of this node are known, or have changed. */
  updateNodeLabels(labels: NodeLabels): void;
  /** The same for the trust anchors of a volume. */
  updateTrustAnchors(key: string, known: KnownTrustAnchors): void;
  /** Removes everything but these keys, also the files that `load` has got nothing from. */
  prune(keys: ReadonlySet<string>): void;
  /** Adds the kept objects to those that the API server has answered for since the start. */
  withObjects(known: ReferencedObjects): ReferencedObjects;
  /** Adds the kept tokens, expired or not, where the API server has not answered since the start. */
  withTokens(known: ReadonlyMap<string, KnownToken>): ReadonlyMap<string, KnownToken>;
  /** The same for claims. */
  withClaims(known: ReadonlyMap<string, KnownClaim>): ReadonlyMap<string, KnownClaim>;
  /** The same for trust anchors. */
  withTrustAnchors(known: ReadonlyMap<string, KnownTrustAnchors>): ReadonlyMap<string, KnownTrustAnchors>;
  /** The labels of this node as they were when a claim was kept last; undefined without a claim. */
  nodeLabels(): NodeLabels | undefined;
  /** Whether something is kept by this key. */
  has(key: string): boolean;
  /** How much of this is known only because it was kept. */
  count(known: KnownByServer): number;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

type NodeLabels = Readonly<Record<string, string>>;

/** What the API server has answered since the start. */
interface KnownByServer {
  readonly objects: ReferencedObjects;
  readonly tokens: ReadonlyMap<string, KnownToken>;
  readonly claims: ReadonlyMap<string, KnownClaim>;
  readonly trustAnchors: ReadonlyMap<string, KnownTrustAnchors>;
}

export interface KeptObjectsOptions {
  readonly root: Files;
  readonly clock: Clock;
  readonly log: Log;
}

type Kept =
  | { readonly key: string; readonly object: ReferencedObject }
  | { readonly key: string; readonly token: IssuedToken }
  | { readonly key: string; readonly claim: BoundClaim; readonly nodeLabels: NodeLabels }
  | { readonly key: string; readonly anchors: ReadTrustAnchors };

const FOLDER = "berth/referenced-objects";
const VERSION = 1;

export function createKeptObjects({ root, clock, log }: KeptObjectsOptions): KeptObjects {
  const kept = new Map<string, Kept>();
  const earlier = createEarlierFiles({ root, log, folder: FOLDER });
  const reader = createKeptReader(kept);
  const writes = createRetriedWrites<string>({
    clock,
    onRecovered: () => log.info({}, "what pods refer to is kept on the disk again"),
  });
  /** Takes a key, or a file that `load` has got nothing from. */
  const writer = createKeyedCoalescingWorker((key: string) =>
    earlier.hasUnread(key)
      ? writes.write(
          key,
          () => earlier.remove(key),
          (error) => log.warn({ err: error }, "cannot remove an unreadable kept object yet"),
        )
      : writes.write(
          key,
          () => writeKept(key),
          // The file system's error names the file, never its content.
          (error) => log.warn({ err: error }, `cannot keep the ${nameOf(key)} on the disk yet`),
        ),
  );

  async function writeKept(key: string): Promise<void> {
    const current = kept.get(key);
    if (current === undefined) return await root.remove(fileOf(key));
    await root.makeFolder(FOLDER, 0o700);
    await root.write(fileOf(key), `${JSON.stringify({ version: VERSION, ...current })}\n`, 0o600);
  }

  function keep(next: Kept): void {
    if (versionOf(kept.get(next.key)) === versionOf(next)) return;
    earlier.forget(fileOf(next.key));
    kept.set(next.key, next);
    writer.wake(next.key);
  }

  function forget(key: string): void {
    if (kept.delete(key)) writer.wake(key);
  }

  return {
    load: () =>
      earlier.load((text) => {
        const found = decode(text);
        if (!kept.has(found.key)) kept.set(found.key, found);
      }),
    updateObject(key, object) {
      if (object === "absent") forget(key);
      else keep({ key, object });
    },
    updateToken(key, token) {
      if (!("failure" in token)) keep({ key, token });
      else if (token.isOutage !== true) forget(key);
    },
    updateClaim(key, claim, nodeLabels) {
      if ("failure" in claim) return claim.isOutage === true ? undefined : forget(key);
      // Until the Node object is read those of the last boot hold: without labels no volume would be mounted after the next.
      keep({ key, claim: toKeptClaim(claim), nodeLabels: nodeLabels ?? reader.nodeLabels() ?? {} });
    },
    updateNodeLabels(nodeLabels) {
      for (const each of kept.values()) if ("claim" in each) keep({ ...each, nodeLabels });
    },
    updateTrustAnchors(key, known) {
      if (!("failure" in known)) keep({ key, anchors: known });
      else if (known.isOutage !== true) forget(key);
    },
    prune(keys) {
      for (const key of [...kept.keys()]) if (!keys.has(key)) forget(key);
      for (const file of earlier.unreadBeside(() => new Set([...keys].map(fileOf)))) writer.wake(file);
    },
    ...reader,
    settled: () => writer.settled(),
  };
}

type KeptReader = Pick<
  KeptObjects,
  "withObjects" | "withTokens" | "withClaims" | "withTrustAnchors" | "nodeLabels" | "has" | "count"
>;

/** Reads what is kept, and adds it where the API server has not answered. */
function createKeptReader(kept: ReadonlyMap<string, Kept>): KeptReader {
  const values = () => [...kept.values()];
  const missingObjects = (known: ReferencedObjects) =>
    values().flatMap((each) => ("object" in each && !known.has(each.key) ? [[each.key, each.object] as const] : []));
  const missingTokens = (known: ReadonlyMap<string, KnownToken>) =>
    values().flatMap((each) =>
      "token" in each && isOutage(known.get(each.key)) ? [[each.key, each.token] as const] : [],
    );
  const missingClaims = (known: ReadonlyMap<string, KnownClaim>) =>
    values().flatMap((each) =>
      "claim" in each && isOutage(known.get(each.key)) ? [[each.key, each.claim] as const] : [],
    );
  const missingAnchors = (known: ReadonlyMap<string, KnownTrustAnchors>) =>
    values().flatMap((each) =>
      "anchors" in each && isOutage(known.get(each.key)) ? [[each.key, each.anchors] as const] : [],
    );
  return {
    withObjects: (known) => withMissing(known, missingObjects(known)),
    withTokens: (known) => withMissing(known, missingTokens(known)),
    withClaims: (known) => withMissing(known, missingClaims(known)),
    withTrustAnchors: (known) => withMissing(known, missingAnchors(known)),
    nodeLabels: () => values().findLast((each) => "claim" in each)?.nodeLabels,
    has: (key) => kept.has(key),
    count: ({ objects, tokens, claims, trustAnchors }) =>
      [missingObjects(objects), missingTokens(tokens), missingClaims(claims), missingAnchors(trustAnchors)].flat()
        .length,
  };
}

/** Removes what an agent with `--keep-referenced-objects` has kept: secrets do not stay on the disk without it. */
export const removeKeptObjects = (root: Files): Promise<void> => root.remove(FOLDER);

/** `secret shop/login`; of a token without its audience, which a user writes. */
const nameOf = (key: string) => key.split(" ").slice(0, 2).join(" ");

/** A key may contain any character. */
function fileOf(key: string): string {
  return `${FOLDER}/${new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, 32)}.json`;
}

function versionOf(kept: Kept | undefined): string | undefined {
  if (kept === undefined) return undefined;
  if ("object" in kept) return `${kept.object.uid} ${kept.object.version}`;
  if ("token" in kept) return kept.token.version;
  return "claim" in kept ? JSON.stringify([kept.claim, kept.nodeLabels]) : kept.anchors.version;
}

/** Whether the API server has not answered. */
function isOutage(known: KnownToken | KnownClaim | KnownTrustAnchors | undefined): boolean {
  return known !== undefined && "failure" in known && known.isOutage === true;
}

function withMissing<T>(
  known: ReadonlyMap<string, T>,
  missing: readonly (readonly [key: string, value: T])[],
): ReadonlyMap<string, T> {
  return missing.length === 0 ? known : new Map([...known, ...missing]);
}

/** The annotations of a persistent volume that its mounts and containers depend on. */
const mountAnnotations = [mountOptionAnnotation, volumeGidAnnotation];

/** What a mount needs of a claim and its volume. */
function toKeptClaim({ claim, persistentVolume }: BoundClaim): BoundClaim {
  const { name = "", namespace = "", uid = "", ownerReferences } = claim.metadata;
  const { annotations = {} } = persistentVolume.metadata;
  const kept = Object.fromEntries(
    mountAnnotations.flatMap((key) => (annotations[key] === undefined ? [] : [[key, annotations[key]]])),
  );
  return {
    claim: { metadata: { name, namespace, uid, ...(ownerReferences && { ownerReferences }) }, spec: {} },
    persistentVolume: {
      metadata: {
        name: persistentVolume.metadata.name ?? "",
        ...(Object.keys(kept).length > 0 && { annotations: kept }),
      },
      spec: persistentVolume.spec,
    },
  };
}

/** Throws `KeptObjectError` if this release did not write the file. */
function decode(text: string): Kept {
  const found = parseJson(text);
  if (!isObject(found) || found["version"] !== VERSION)
    throw new KeptObjectError("this release cannot read its format");
  const { key, object, token, claim, nodeLabels, anchors } = found;
  if (typeof key === "string" && isReferencedObject(object)) return { key, object };
  if (typeof key === "string" && isIssuedToken(token)) return { key, token };
  if (typeof key === "string" && isBoundClaim(claim) && isLabels(nodeLabels)) return { key, claim, nodeLabels };
  if (typeof key === "string" && isTrustAnchors(anchors)) return { key, anchors };
  throw new KeptObjectError("it has no object, no token, no claim and no trust anchors");
}

/** The parser's own error would repeat a part of the text, which is secret. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new KeptObjectError("it is no JSON");
  }
}

const isText = (value: unknown): value is string => typeof value === "string";
const isTextMap = (value: unknown): boolean => isObject(value) && Object.values(value).every(isText);

function isReferencedObject(value: unknown): value is ReferencedObject {
  if (!isObject(value)) return false;
  const { uid, version, type, data, binaryData = {} } = value;
  return [uid, version, type].every(isText) && isTextMap(data) && isTextMap(binaryData);
}

function isIssuedToken(value: unknown): value is IssuedToken {
  return isObject(value) && isText(value["token"]) && isText(value["version"]) && Number.isFinite(value["expiresAt"]);
}

const isLabels = (value: unknown): value is NodeLabels => isTextMap(value);

/** The volume may have fields of a newer API server. */
function isBoundClaim(value: unknown): value is BoundClaim {
  const hasMetadata = (each: unknown) => isObject(each) && isObject(each["metadata"]) && isObject(each["spec"]);
  return isObject(value) && hasMetadata(value["claim"]) && hasMetadata(value["persistentVolume"]);
}

function isTrustAnchors(value: unknown): value is ReadTrustAnchors {
  return isObject(value) && isText(value["pem"]) && isText(value["version"]);
}
