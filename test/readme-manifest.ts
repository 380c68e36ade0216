import { join } from "node:path";

/** The README's text. */
export const readReadme = () => Bun.file(join(import.meta.dirname, "..", "README.md")).text();

/** The manifest that the README offers to paste into a folder of manifests. */
export async function readmeManifest(): Promise<string> {
  const pasted = /^cat > state\/manifests\/\S+ <<'EOF'\n(?<manifest>[\s\S]*?\n)EOF$/m.exec(await readReadme());
  return pasted?.groups?.["manifest"] ?? "";
}
