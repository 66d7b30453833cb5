// A receipt on the page: what it says, whether it is true here, and whether a digest is its own.
import { verify } from "./api.js";

const bytes_of = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
const row = (name, value) => {
  const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
  [term.textContent, detail.textContent] = [name, value];
  return [term, detail];
};

// What can be shown of a file: a receipt, or a reply of a server.
function facts_of(content) {
  if (content.choices) {
    const [choice] = content.choices;
    const receipts = content.choices.filter((one) => one.receipt).length;
    const signed = receipts === content.choices.length ? "with a receipt" : receipts ? "signed in part" : "not signed";
    return { digest: choice.digest, rows: { Kind: `a reply, ${signed}`, Fingerprint: content.system_fingerprint } };
  }
  const { predicate } = JSON.parse(new TextDecoder().decode(bytes_of(content.payload)));
  const { answer, artifacts, contract, environment, issuer, steps } = predicate;
  const rows = {
    Contract: contract,
    Model: artifacts.model,
    Answer: `${answer.tokens.length} tokens, ended by ${answer.finish_reason}`,
    Steps: steps.root,
    Made: [environment.device, environment.isa].filter(Boolean).join(" "),
    Key: issuer.key_id,
  };
  return { digest: answer.digest, rows };
}

export class ReceiptPanel {
  #dialog;
  #shown = null; // { receipt, opening, digest }
  #reading = null; // the file that came last

  constructor(dialog) {
    this.#dialog = dialog;
    this.#part("close").addEventListener("click", () => dialog.close());
    this.#part("verify").addEventListener("click", () => this.#verify());
    this.#part("pasted").addEventListener("input", () => this.#compare());
    this.#part("file").addEventListener("change", ({ target }) => this.#read(target.files[0]));
    // Files only: text that is dropped goes where the browser puts it.
    const has_files = ({ dataTransfer }) => dataTransfer.types.includes("Files");
    document.addEventListener("dragover", (event) => has_files(event) && event.preventDefault());
    document.addEventListener("drop", (event) => {
      if (!has_files(event)) return;
      event.preventDefault();
      this.#read(event.dataTransfer.files[0], true);
    });
  }

  #part(name) {
    return this.#dialog.querySelector(`.receipt-${name}`);
  }

  open() {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  // `opening` is what opens a prompt that the receipt hides.
  show(receipt, opening) {
    this.open();
    this.#tell("", "");
    this.#part("proof").replaceChildren();
    try {
      const { digest, rows } = facts_of(receipt);
      this.#shown = { receipt, opening, digest };
      const entries = Object.entries({ ...rows, Digest: digest });
      this.#part("facts").replaceChildren(...entries.flatMap((entry) => row(...entry)));
    } catch {
      this.#shown = null;
      this.#tell("different", "This is no receipt.");
    }
    this.#part("shown").hidden = this.#shown === null;
    if (this.#shown === null) return;
    const download = this.#part("download");
    URL.revokeObjectURL(download.href);
    download.href = URL.createObjectURL(new Blob([`${JSON.stringify(receipt)}\n`], { type: "application/json" }));
    this.#compare();
  }

  async #read(file, replay = false) {
    if (!file) return;
    const reading = (this.#reading = file);
    let content = null;
    try {
      content = JSON.parse(await file.text());
    } catch {
      // show() says that it is none
    }
    if (reading !== this.#reading) return; // another came later
    this.show(content?.receipt ?? content, content?.opening);
    if (replay && this.#shown) await this.#verify();
  }

  async #verify() {
    const shown = this.#shown;
    const { receipt, opening } = shown;
    this.#tell("running", "Replaying it on this server");
    try {
      const report = await verify({ receipt, ...(opening && { opening }) });
      if (shown !== this.#shown) return; // another is shown by now
      const equal = report.verdict.startsWith("equal");  // "equal, unsigned" is that of a reply
      const author = report.verdict === "equal" ? "True" : "Unsigned, but true";
      this.#tell(equal ? "equal" : "different", equal ? `${author}: this server computes the same` : report.problem);
      const item = (words) => Object.assign(document.createElement("li"), { textContent: words });
      const findings = ({ index, verdict, proven, not_proven }) => [
        ...(index === undefined ? [] : [item(`Choice ${index}: ${verdict}`)]),
        ...proven.map((line) => item(`Proven: ${line}`)),
        ...not_proven.map((line) => item(`Not proven: ${line}`)),
      ];
      this.#part("proof").replaceChildren(...(report.choices ?? [report]).flatMap(findings)); // a reply may have several
    } catch (error) {
      if (shown === this.#shown) this.#tell("different", error.message);
    }
  }

  #tell(state, words) {
    this.#part("verdict").dataset.state = state;
    this.#part("verdict").textContent = words;
  }

  #compare() {
    const pasted = this.#part("pasted").value.trim().replace(/^digest\s+/, "");
    const equal = pasted === this.#shown?.digest;
    this.#part("comparison").dataset.state = pasted && (equal ? "equal" : "different");
    this.#part("comparison").textContent = pasted && (equal ? "The same digest" : "Another digest");
  }
}
