// What executes the network is stopped by SIGSTOP while it executes a call, and goes on later: who waits meanwhile, and who answers what.
import { afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { execa } from "execa";
import { pollUntil } from "../bed/poll-until.ts";
import {
  added,
  attached,
  createDelegateNode,
  type DelegateNode,
  done,
  nothing,
  TIMEOUT_MS,
} from "./delegate-fixture.ts";
import { delegateForm, describeForms } from "./delegate-forms.ts";
import { inMountNamespace } from "./own-namespace.ts";

const forms = await delegateForm();
let node: DelegateNode;

const ADDED = ["ADD begins", "ADD ends"];
const notAnswered = (who: string, verb: string) => ({
  exitCode: 1,
  output: {
    code: 11,
    msg: expect.stringMatching(new RegExp(`^${who} has not answered ${verb} within ${TIMEOUT_MS} ms$`)),
  },
});
const agentIsSilent = (verb: string) => notAnswered("the agent on .*/root/cni.sock, which may be stopped,", verb);
/** The stopped executor holds the lock of the attachment, or that of the network during GC. */
const isLocked = {
  exitCode: 1,
  output: {
    code: 11,
    msg: expect.stringMatching(
      /^pid \d+ \(.+\) has locked (eth0 of \w+ in )?the network pods( since [\dT:-]+Z)?, longer than this call may wait$/,
    ),
  },
};
/** A delegate that no agent answers executes its call itself. */
const withoutAgent = { timeoutMs: TIMEOUT_MS, socket: "root/no-agent.sock" };

inMountNamespace(import.meta.path, "an executor of the network that is stopped", () => {
  beforeAll(async () => {
    await execa("mount", ["-t", "tmpfs", "tmpfs", "/run"]);
  });
  describeForms(forms, (each) => {
    beforeEach(async () => {
      node = await createDelegateNode(each);
      await node.putSlowPlugin();
    });
    afterEach(() => node.close());

    /** Begins a call, and stops its executor while the last plugin runs, which ends then. Resolves with the call's outcome. */
    async function stopDuring(verb: "ADD" | "DEL" | "CHECK") {
      await node.hold(verb);
      const outcome = node.call(verb);
      await node.heldPlugin();
      await node.signalExecutor("SIGSTOP");
      await node.letGo(verb);
      await node.waitForNote(`${verb} ends`);
      return { outcome };
    }

    test("a delegate without an agent, during ADD: an agent and another delegate wait, and return the result that it has cached", async () => {
      const { outcome } = await stopDuring("ADD");
      await node.startAgent();
      const waiting = [node.call("ADD"), node.call("ADD", { socket: withoutAgent.socket })];
      expect(await node.call("ADD", withoutAgent)).toMatchObject(isLocked);
      // Its result is not in the cache yet.
      expect([await node.notes(), await node.view()]).toEqual([ADDED, { ...attached, cached: [] }]);
      await node.signalExecutor("SIGCONT");
      const { output } = await outcome;
      expect(output).toMatchObject(added.output);
      for (const each of await Promise.all(waiting)) expect(each).toMatchObject({ ...done, output });
      expect([await node.notes(), await node.view()]).toEqual([ADDED, attached]);
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.notes()).toEqual([...ADDED, "DEL begins", "DEL ends"]);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    for (const verb of ["DEL", "CHECK"] as const) {
      const executed = [...ADDED, `${verb} begins`, `${verb} ends`];

      test(`the agent, during ${verb}: each DEL waits for its time, none is executed, and the call succeeds when the agent goes on`, async () => {
        await node.startAgent();
        expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
        const { outcome } = await stopDuring(verb);
        expect(await node.call("DEL", { timeoutMs: TIMEOUT_MS })).toMatchObject(agentIsSilent("DEL"));
        expect(await node.call("DEL", withoutAgent)).toMatchObject(isLocked);
        expect([await node.notes(), await node.view()]).toEqual([executed, attached]);
        await node.signalExecutor("SIGCONT");
        expect(await outcome).toMatchObject({ ...done, output: undefined });
        expect(await node.call("DEL")).toMatchObject(done);
        const deleted = ["DEL begins", "DEL ends"];
        // The agent remembers what it has deleted.
        expect(await node.notes()).toEqual(verb === "DEL" ? executed : [...executed, ...deleted]);
        expect(await node.viewAfterDel()).toEqual(nothing);
      }, 600_000);

      test(`a delegate without an agent, during ${verb}: an agent and another delegate wait, and the call succeeds when it goes on`, async () => {
        expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
        const { outcome } = await stopDuring(verb);
        await node.startAgent();
        const waiting = node.call("DEL");
        expect(await node.call("DEL", withoutAgent)).toMatchObject(isLocked);
        expect([await node.notes(), await node.view()]).toEqual([executed, attached]);
        await node.signalExecutor("SIGCONT");
        expect(await outcome).toMatchObject({ ...done, output: undefined });
        expect(await waiting).toMatchObject(done);
        // The agent does not know that the delegate has deleted it: plugins take a second DEL.
        expect(await node.notes()).toEqual([...executed, "DEL begins", "DEL ends"]);
        expect(await node.viewAfterDel()).toEqual(nothing);
      }, 600_000);
    }

    test("the agent, during GC: ADD and DEL of the network wait, and GC goes on with what it had", async () => {
      expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
      await node.hold("GC");
      await node.startAgent({ sandboxes: ["3f2a"] });
      await node.heldPlugin();
      await node.signalExecutor("SIGSTOP", ".pods");
      await node.letGo("GC");
      await node.waitForNote("GC ends");
      const second = { containerId: "77aa", netns: "/run/netns/second", hostPort: 8081 };
      const [silent, busy, busyDel] = await Promise.all([
        node.call("ADD", { ...second, timeoutMs: TIMEOUT_MS }),
        node.call("ADD", { ...second, ...withoutAgent }),
        node.call("DEL", withoutAgent),
      ]);
      expect(silent).toMatchObject(agentIsSilent("ADD"));
      expect([busy, busyDel]).toMatchObject([isLocked, isLocked]);
      const collected = [...ADDED, "GC begins", "GC ends"];
      expect([await node.notes(), await node.view()]).toEqual([collected, attached]);
      await node.signalExecutor("SIGCONT", ".pods");
      expect(await node.call("ADD", second)).toMatchObject({ exitCode: 0 });
      for (const input of [second, {}]) expect(await node.call("DEL", input)).toMatchObject(done);
      const deleted = ["DEL begins", "DEL ends"];
      const notes = await node.notes();
      expect(notes.slice(-6)).toEqual([...ADDED, ...deleted, ...deleted]);
      // The agent undoes an ADD whose caller has left, unless it learns of that before the first plugin runs.
      const undone = [[], ["ADD begins"], ADDED].map((started) => [...collected, ...started, ...deleted]);
      expect([collected, ...undone]).toContainEqual(notes.slice(0, -6));
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("GC waits for a delegate that is stopped during DEL, and finds nothing to delete when that has gone on", async () => {
      expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
      const { outcome } = await stopDuring("DEL");
      const executed = [...ADDED, "DEL begins", "DEL ends"];
      await node.startAgent({ sandboxes: ["another"] });
      // Meanwhile the agent has tried to take the lock of the network.
      expect(await node.call("DEL", withoutAgent)).toMatchObject(isLocked);
      expect([await node.notes(), await node.view()]).toEqual([executed, attached]);
      await node.signalExecutor("SIGCONT");
      expect(await outcome).toMatchObject(done);
      await pollUntil("GC", 10_000, async () => (await node.notes()).includes("GC ends"));
      expect(await node.notes()).toEqual([...executed, "GC begins", "GC ends"]);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);
  });
});
