import { join } from "node:path";

/** The text of README.md. */
export const readReadme = () => Bun.file(join(import.meta.dirname, "..", "README.md")).text();

/** The manifest of the README's example pod, which a reader pastes into the manifest folder. */
export async function readmeManifest(): Promise<string> {
  const pasted = /^cat > state\/manifests\/\S+ <<'EOF'\n(?<manifest>[\s\S]*?\n)EOF$/m.exec(await readReadme());
  return pasted?.groups?.["manifest"] ?? "";
}
