// What the status bar says for each state. Knows nothing of VS Code but its icon and colour names.

export type State = "off" | "loading" | "ready" | "error";

/** The server's `ghostdraft/status` notification. */
export interface Status {
  readonly state: State;
  readonly model?: string;
  readonly message?: string;
}

export interface Face {
  readonly text: string;
  readonly tooltip: string;
  readonly background?: "statusBarItem.errorBackground";
}

const ICONS: Record<State, string> = {
  off: "$(circle-slash)",
  loading: "$(loading~spin)",
  ready: "$(sparkle)",
  error: "$(error)",
};

const SENTENCES: Record<State, string> = {
  off: "Ghostdraft is off.",
  loading: "Ghostdraft is loading.",
  ready: "Ghostdraft is ready.",
  error: "Ghostdraft does not work.",
};

export function face(status: Status): Face {
  const lines = [SENTENCES[status.state], status.message, status.model && `Model: ${status.model}`];
  return {
    text: `${ICONS[status.state]} Ghostdraft`,
    tooltip: lines.filter(Boolean).join("\n"),
    ...(status.state === "error" && { background: "statusBarItem.errorBackground" }),
  };
}

/** A status from the wire; anything unknown in it is an error of the server's that the user should see. */
export function parseStatus(params: unknown): Status {
  const { state, model, message } = (params ?? {}) as Record<string, unknown>;
  if (typeof state !== "string" || !Object.hasOwn(ICONS, state))
    return { state: "error", message: "The server sent no state." };
  return {
    state: state as State,
    ...(typeof model === "string" && { model }),
    ...(typeof message === "string" && { message }),
  };
}
