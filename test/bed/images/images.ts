import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../packages.ts";
import { type BuiltImage, buildImage, type ImageRecipe, packLayout } from "./oci-layout.ts";
import type { TarEntry } from "./tar.ts";

export const pauseImage = "berth.test/pause:1";
export const busyboxImage = "berth.test/busybox:1";
export const webImage = "berth.test/web:1";

/** The response of a container of `webImage` to `GET /`. */
export const webPage = "Hello from a pod that Berth runs.\n";

/**
 * Builds the three images of the test bed from Debian's packages busybox-static and catatonit: a pause image (catatonit
 * in pause mode reaps orphans and exits at once on SIGTERM), a busybox with a link for each of its applets, and the
 * same with a web page and `httpd` as its command. A command under `catatonit --` ends at once on SIGTERM; as the first
 * process of a container it would not, because the kernel ignores signals without a handler there.
 */
export async function buildTestImages(): Promise<readonly BuiltImage[]> {
  const { root } = await unpackPackages("bookworm");
  const [busybox, catatonit, applets] = await Promise.all([
    readFile(join(root, "bin/busybox")),
    readFile(join(root, "usr/bin/catatonit")),
    execa(join(root, "bin/busybox"), ["--list"]),
  ]);
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  return imageRecipes(busybox, catatonit, applets.stdout.split("\n")).map((recipe) => buildImage(recipe, architecture));
}

/** The recipes of {@link buildTestImages}, from the bytes of the two programs and the names of busybox' applets. */
export function imageRecipes(
  busybox: Uint8Array,
  catatonit: Uint8Array,
  applets: readonly string[],
): readonly ImageRecipe[] {
  const layer = [...busyboxLayer(busybox, applets), catatonitEntry("bin/catatonit", catatonit)];
  const page: readonly TarEntry[] = [
    { path: "www", kind: "folder" },
    { path: "www/index.html", kind: "file", bytes: new TextEncoder().encode(webPage) },
  ];
  return [
    {
      name: pauseImage,
      layers: [[catatonitEntry("catatonit", catatonit)]],
      entrypoint: ["/catatonit", "-P"],
    },
    { name: busyboxImage, layers: [layer], command: ["sh"] },
    {
      name: webImage,
      layers: [layer, page],
      entrypoint: ["catatonit", "--"],
      command: ["httpd", "-f", "-p", "8080", "-h", "/www"],
      workingDir: "/www",
    },
  ];
}

/** Imports `images` (by default the three of {@link buildTestImages}) into the CRI's namespace of a containerd. */
export async function importImages(
  containerd: { ctr(args: readonly string[]): Promise<string> },
  images?: readonly BuiltImage[],
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "berth-images-"));
  try {
    const layout = join(folder, "images.tar");
    await writeFile(layout, packLayout(images ?? (await buildTestImages())));
    await containerd.ctr(["-n", "k8s.io", "images", "import", layout]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const catatonitEntry = (path: string, catatonit: Uint8Array): TarEntry => ({
  path,
  kind: "file",
  bytes: catatonit,
  mode: 0o755,
});

function busyboxLayer(busybox: Uint8Array, applets: readonly string[]): readonly TarEntry[] {
  const folders = ["bin", "dev", "etc", "home", "proc", "root", "run", "sys", "usr", "var"];
  const text = (path: string, content: string): TarEntry => ({
    path,
    kind: "file",
    bytes: new TextEncoder().encode(content),
  });
  return [
    ...folders.map((path): TarEntry => ({ path, kind: "folder" })),
    { path: "tmp", kind: "folder", mode: 0o1777 },
    { path: "bin/busybox", kind: "file", bytes: busybox, mode: 0o755 },
    ...applets
      .filter((applet) => applet !== "busybox")
      .map((applet): TarEntry => ({ path: `bin/${applet}`, kind: "symlink", target: "busybox" })),
    text(
      "etc/passwd",
      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nsailor:x:4242:4242:sailor:/:/bin/false\n",
    ),
    // A pod may exclude the image's own group memberships (`supplementalGroupsPolicy: Strict`).
    text("etc/group", "root:x:0:\nnogroup:x:65534:\nsailor:x:4242:\ncrew:x:50000:sailor\n"),
  ];
}
