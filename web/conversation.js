// Questions, answers and replays, one at a time.
import { events, ServerError } from "./api.js";
import { Answer } from "./tokens.js";
import { Turn } from "./turn.js";

export class Conversation {
  #list;
  #template;
  #listeners;
  #turns = [];
  #running = null;

  // listeners: progress(answer) with each event, busy(whether), failed(error, turn), receipt(receipt) when asked for.
  constructor(list, template, listeners) {
    this.#list = list;
    this.#template = template;
    this.#listeners = listeners;
  }

  // What the model is told of the conversation so far: neither what failed nor plain text.
  get answered() {
    return this.#turns.filter(({ answer, failed, request }) => answer.text && !failed && request.body.messages);
  }

  get busy() {
    return this.#running !== null;
  }

  stop() {
    this.#running?.abort();
  }

  clear() {
    this.stop();
    this.#turns = [];
    this.#list.replaceChildren();
  }

  async ask(question, request) {
    const turn = new Turn(this.#template, question, request);
    this.#turns.push(turn);
    this.#list.append(turn.element);
    turn.replay_button.addEventListener("click", () => this.#replay(turn));
    turn.receipt_button.addEventListener("click", () => this.#listeners.receipt(turn.answer.receipt));
    scroll_to_end();
    const { stopped, error } = await this.#run(turn.request, (event) => {
      keep_end_in_view(() => turn.add(event));
      this.#listeners.progress(turn.answer);
    });
    turn.answer.stopped = stopped || Boolean(error);
    turn.finish();
    if (error) this.#listeners.failed(error, turn);
  }

  async #replay(turn) {
    if (this.busy) return;
    const replayed = new Answer();
    let decided = false;
    turn.show_comparison(replayed, false);
    const { path, body } = turn.request;
    const unsigned = { path, body: { ...body, receipt: false } }; // one receipt of an answer is enough
    const { stopped, error } = await this.#run(unsigned, (event) => {
      replayed.add(event);
      this.#listeners.progress(replayed);
      const all_came = turn.answer.stopped && replayed.tokens.length >= turn.answer.tokens.length;
      decided = turn.show_comparison(replayed, false) === "different" || all_came;
      if (decided) this.stop();
    });
    if (error) turn.show_verdict("failed", `The replay failed: ${error.message}`);
    else if (stopped && !decided) turn.show_verdict("stopped", "The replay was stopped.");
    else turn.show_comparison(replayed, true);
  }

  // Sends a request and passes on its events. Returns how it ended, if it did not come to its end.
  async #run(request, take) {
    const control = new AbortController();
    this.#running = control;
    this.#listeners.busy(true);
    try {
      for await (const event of events(request, control.signal)) {
        control.signal.throwIfAborted(); // more may be in hand
        take(event);
      }
      return {};
    } catch (error) {
      if (error.name === "AbortError") return { stopped: true };
      if (error instanceof ServerError) return { error };
      throw error;
    } finally {
      this.#running = null;
      this.#listeners.busy(false);
    }
  }
}

// A reader at the end of the page stays there while it grows; one who scrolled up is left alone.
function keep_end_in_view(change) {
  const page = document.scrollingElement;
  const at_end = page.scrollHeight - page.scrollTop - page.clientHeight < 48;
  change();
  if (at_end) scroll_to_end();
}

function scroll_to_end() {
  scrollTo(0, document.scrollingElement.scrollHeight);
}
