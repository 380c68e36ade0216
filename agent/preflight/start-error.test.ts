import { expect, test } from "bun:test";
import { join } from "node:path";

/** What a file operation that fails with this code is told as, to a user of that id. */
async function toldTo(uid: number, code: string): Promise<string> {
  const program = `
    import { FilesError } from ${JSON.stringify(join(import.meta.dirname, "../../host/fs/files.ts"))};
    import { failStart } from ${JSON.stringify(join(import.meta.dirname, "start-error.ts"))};
    process.seteuid(${uid});
    try {
      failStart("it cannot be", "do this")(new FilesError(${JSON.stringify(code)}, "/x", "/x is not right"));
    } catch (error) {
      console.log(error.name + " " + error.message);
    }
  `;
  return (await Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" }).stdout.text()).trim();
}

test("who may not, and is not root, is told to be root; anybody else is told the cure", async () => {
  expect(await toldTo(65534, "EACCES")).toBe("StartError it cannot be: /x is not right: run berth as root");
  expect(await toldTo(65534, "EROFS")).toBe("StartError it cannot be: /x is not right: do this");
  expect(await toldTo(0, "EACCES")).toBe("StartError it cannot be: /x is not right: do this");
});
