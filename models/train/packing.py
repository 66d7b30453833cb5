"""Packs tokenized conversations into rows of one length, whole ones only, each marked so that none sees another."""
import corpus
import tokenizer
from rng import Rng

OPEN_ROWS = 16  # a conversation goes into the fullest of these that has room
ANSWER_WEIGHT, OTHER_WEIGHT = 10, 1  # how much a token counts in the loss; answers are what is to be learned
CONVERSATIONS_PER_BATCH = 1 << 20  # the most that one batch can draw; each has its own seed


class Row:
    def __init__(self):
        self.tokens, self.targets, self.weights, self.documents = [], [], [], []
        self.count = 0

    def add(self, tokens, weights):
        """Each token's target is the next one; the last has none."""
        self.count += 1
        self.tokens += tokens
        self.targets += tokens[1:] + [0]
        self.weights += weights[1:] + [0]
        self.documents += [self.count] * len(tokens)

    def padded(self, length):
        """Padding is document 0 and has no weight."""
        fill = [0] * (length - len(self.tokens))
        return self.tokens + fill, self.targets + fill, self.weights + fill, self.documents + fill


def encode_conversation(encoder, messages):
    """(tokens, weights): a weight is how much predicting that token counts."""
    tokens, weights = [encoder.special[tokenizer.BOS]], [0]
    for role, text in messages:
        header, body = encoder.encode_message(role, text)
        tokens += header + body
        weights += [OTHER_WEIGHT] * len(header) + [ANSWER_WEIGHT if role == "assistant" else OTHER_WEIGHT] * len(body)
    return tokens, weights


def pack_batch(encoder, seed, batch, rows, length, draw=corpus.training_conversation):
    """(tokens, targets, weights, documents), each a list of `rows` lists; a function of its arguments alone.

    `draw` makes a conversation from a random generator."""
    done, open_rows = [], [Row() for _ in range(min(OPEN_ROWS, rows))]
    index = batch * CONVERSATIONS_PER_BATCH
    while len(done) < rows:
        messages = draw(Rng(corpus.conversation_seed(seed, index)))
        index += 1
        tokens, weights = encode_conversation(encoder, messages)
        if len(tokens) > length:
            continue
        fitting = [row for row in open_rows if len(row.tokens) + len(tokens) <= length]
        if fitting:
            max(fitting, key=lambda row: len(row.tokens)).add(tokens, weights)
            continue
        fullest = max(open_rows, key=lambda row: len(row.tokens))
        done.append(fullest)
        open_rows.remove(fullest)
        open_rows.append(Row())
        open_rows[-1].add(tokens, weights)
    return tuple(zip(*(row.padded(length) for row in done)))
