// Requests to the JSON gateway of an etcd, by its URL.
import { sendRequest } from "./daemon.ts";

/** Reads etcd's current revision and compacts up to it. */
export async function compactStore(etcd: string): Promise<void> {
  const { header } = await callEtcd(etcd, "/v3/maintenance/status", {});
  await callEtcd(etcd, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

export async function deleteKey(etcd: string, key: string): Promise<void> {
  await callEtcd(etcd, "/v3/kv/deleterange", { key: btoa(key) });
}

async function callEtcd(etcd: string, path: string, body: unknown) {
  const { status, text } = await sendRequest(`${etcd}${path}`, { body });
  if (status !== 200) throw new Error(`etcd answered ${path} with ${status}: ${text}`);
  return JSON.parse(text) as { readonly header: { readonly revision: string } };
}
