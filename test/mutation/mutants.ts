import { type Node, parseSync, Visitor } from "oxc-parser";

/** A fault to plant: the text from `start` to `end` of a file becomes `replacement`. */
export interface Mutant {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

/** An operator and the one that a planted fault puts in its place. */
const OPERATORS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "&&": "||",
  "||": "&&",
};

/**
 * All faults that can be planted in a file: another comparison, `&&` for `||`, a negated condition, the other boolean, a
 * number one greater, a list without its first element, a statement that is a call left out. Throws an error if the file is
 * not TypeScript.
 */
export function mutantsOf(path: string, source: string): readonly Mutant[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const mutants: Mutant[] = [];
  const types = new Set<Node>();
  const add = (start: number, end: number, replacement: string) => {
    mutants.push({ path, line: source.slice(0, start).split("\n").length, start, end, replacement });
  };
  const negate = ({ start, end }: Node) => add(start, end, `!(${source.slice(start, end)})`);
  const replaceOperator = ({ operator, left, right }: Operation) => {
    const other = OPERATORS[operator];
    const at = source.indexOf(operator, left.end);
    if (other !== undefined && at !== -1 && at < right.start) add(at, at + operator.length, other);
  };
  new Visitor({
    BinaryExpression: replaceOperator,
    LogicalExpression: replaceOperator,
    ExpressionStatement({ expression, start, end }) {
      // The semicolon stays: the statement may be the whole branch of an `if`.
      if (isCall(expression)) add(start, end, ";");
    },
    IfStatement: ({ test }) => negate(test),
    ConditionalExpression: ({ test }) => negate(test),
    TSLiteralType: ({ literal }) => void types.add(literal),
    Literal(literal) {
      const { value, start, end } = literal;
      if (types.has(literal)) return;
      if (typeof value === "boolean") add(start, end, String(!value));
      if (typeof value === "number") add(start, end, String(value + 1));
    },
    ArrayExpression({ elements: [first, second] }) {
      if (first) add(first.start, second?.start ?? first.end, "");
    },
  }).visit(program);
  return mutants;
}

interface Operation {
  readonly operator: string;
  readonly left: Node;
  readonly right: Node;
}

/** Whether a statement's expression is a call: `f()`, `a?.f()`, `await f()` or `void f()`. */
function isCall(expression: Node): boolean {
  if (
    expression.type === "AwaitExpression" ||
    (expression.type === "UnaryExpression" && expression.operator === "void")
  )
    return isCall(expression.argument);
  return (
    expression.type === "CallExpression" || (expression.type === "ChainExpression" && isCall(expression.expression))
  );
}

/** The file with the fault. */
export const plant = ({ start, end, replacement }: Mutant, source: string): string =>
  `${source.slice(0, start)}${replacement}${source.slice(end)}`;

/** One line about a fault: `agent/decide/x.ts:7: if (a < b) → if (a <= b)`. */
export function describeMutant(mutant: Mutant, source: string): string {
  const lineOf = (text: string) => text.split("\n")[mutant.line - 1]?.trim() ?? "";
  return `${mutant.path}:${mutant.line}: \`${lineOf(source)}\` → \`${lineOf(plant(mutant, source))}\``;
}

/** A fault's path and text, without its line, which changes with what is above it. Takes {@link describeMutant}'s text. */
export const faultOf = (described: string): string => described.replace(/^(\S+?):\d+: /, "$1: ");

/** Draws `count` different ones; `random` returns numbers from 0 up to 1. */
export function draw<T>(all: readonly T[], count: number, random: () => number): readonly T[] {
  const left = [...all];
  return Array.from({ length: Math.min(count, all.length) }, () =>
    left.splice(Math.floor(random() * left.length), 1),
  ).flat();
}
