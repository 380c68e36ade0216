// What decides when a case is recorded: the text of its conditions and of everything that they call.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A condition that a function made. Its text does not have the values that it has from its maker. */
export interface Parametrised {
  readonly parameters?: readonly unknown[];
}

/** The modules of the conditions. */
export interface ConditionSources {
  /**
   * The text of a condition and the values of its maker; then the declarations that it refers to, and those that they
   * refer to. The texts are as Bun prints them, without types, comments and format.
   */
  describe(condition: Parametrised & { toString(): string }): string;
}

interface Module {
  /** The text of each declaration at the top level. */
  readonly declarations: ReadonlyMap<string, string>;
  /** The imports from modules of this repository. */
  readonly imports: ReadonlyMap<string, { readonly name: string; readonly path: string }>;
}

/** The sources of the cases here. */
export function readConditionSources(): ConditionSources {
  const folder = join(import.meta.dirname, "cases");
  const files = readdirSync(folder).map((name) => join(folder, name));
  return createConditionSources(files, (path) => readFileSync(path, "utf8"));
}

/**
 * `files`: the modules that make conditions. `read` returns the source of a module. `followsSpreads`: also follow
 * names after `...`. The conditions do not need it, and four descriptions, and so four recordings, would become stale.
 */
export function createConditionSources(
  files: readonly string[],
  read: (path: string) => string,
  followsSpreads = false,
): ConditionSources {
  const modules = new Map<string, Module>();
  const moduleAt = (path: string): Module => {
    const known = modules.get(path) ?? parseModule(path, read(path));
    modules.set(path, known);
    return known;
  };
  /**
   * Adds what a text in these modules refers to. A function does not show its module: that of a condition is any. A local
   * name that is also one at the top level adds more than the text refers to.
   */
  const addReferences = (text: string, paths: readonly string[], found: Set<string>) => {
    for (const name of new Set(text.match(followsSpreads ? nameOrSpread : nameAlone)))
      for (const { path, declaration } of paths.flatMap((each) => findDeclaration(moduleAt, each, name))) {
        if (found.has(declaration)) continue;
        found.add(declaration);
        addReferences(declaration, [path], found);
      }
  };
  return {
    describe(condition) {
      const text = withoutFormat(condition.toString());
      const found = new Set<string>();
      addReferences(text, files, found);
      return JSON.stringify([text, condition.parameters ?? [], ...[...found].toSorted()]);
    },
  };
}

/** The declaration of a name in a module, or in the one that it is imported from. */
function findDeclaration(
  moduleAt: (path: string) => Module,
  path: string,
  name: string,
): readonly { readonly path: string; readonly declaration: string }[] {
  const { declarations, imports } = moduleAt(path);
  const declaration = declarations.get(name);
  if (declaration !== undefined) return [{ path, declaration }];
  const imported = imports.get(name);
  return imported === undefined ? [] : findDeclaration(moduleAt, imported.path, imported.name);
}

const DECLARATION = /^(?:export )?(?:async )?(?:const|let|var|class|function\*?) ([\w$]+)/;
const IMPORT = /^import \{([^}]*)\} from "(\.[^"]*)"/;

function parseModule(path: string, source: string): Module {
  const printed = new Bun.Transpiler({ loader: "ts" }).transformSync(source);
  const declarations = new Map<string, string>();
  const imports = new Map<string, { readonly name: string; readonly path: string }>();
  // Each statement at the top level begins a line with one of these words.
  for (const statement of printed.split(/^(?=(?:import|export|async|const|let|var|class|function)\b)/m)) {
    const [, names = "", from = ""] = IMPORT.exec(statement) ?? [];
    for (const [, name = "", own = name] of names.matchAll(/([\w$]+)(?: as ([\w$]+))?/g))
      imports.set(own, { name, path: join(dirname(path), from) });
    const [, declared] = DECLARATION.exec(statement) ?? [];
    if (declared !== undefined) declarations.set(declared, withoutFormat(statement.replace(/^export /, "")));
  }
  return { declarations, imports };
}

const withoutFormat = (text: string) => text.replaceAll(/\s+/g, " ").trim();

/** The names in a text, without those of properties that are read. */
const nameAlone = /(?<![.\w$])[A-Za-z_$][\w$]*/g;
/** These, and those after `...`. */
const nameOrSpread = /(?<![\w$]|(?<!\.\.)\.)[A-Za-z_$][\w$]*/g;
