/** Whether an error shows a fault of the program, such as a property of undefined, and no answer to bad input. */
export const isProgrammingError = (error: unknown): boolean =>
  error instanceof TypeError || error instanceof ReferenceError;
