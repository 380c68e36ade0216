import { expect, test } from "bun:test";
import { join } from "node:path";

/** Runs the conversion of a file error with this code as this user, and returns the resulting error. */
async function errorFor(uid: number, code: string): Promise<string> {
  const program = `
    import { FilesError } from ${JSON.stringify(join(import.meta.dirname, "../../host/fs/files.ts"))};
    import { toStartError } from ${JSON.stringify(join(import.meta.dirname, "start-error.ts"))};
    process.seteuid(${uid});
    try {
      toStartError("it cannot be", "do this")(new FilesError(${JSON.stringify(code)}, "/x", "/x is not right"));
    } catch (error) {
      console.log(error.name + " " + error.message);
    }
  `;
  return (await Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" }).stdout.text()).trim();
}

test("a permission error without root suggests to run as root; any other error suggests the given remedy", async () => {
  expect(await errorFor(65534, "EACCES")).toBe("StartError it cannot be: /x is not right: run berth as root");
  expect(await errorFor(65534, "EROFS")).toBe("StartError it cannot be: /x is not right: do this");
  expect(await errorFor(0, "EACCES")).toBe("StartError it cannot be: /x is not right: do this");
});
