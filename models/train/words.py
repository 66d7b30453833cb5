"""The people and things that problems are about."""
import collections

Person = collections.namedtuple("Person", "name he his him")
Thing = collections.namedtuple("Thing", "one many")

SHE = """Anna Maria Lena Sofia Emma Olivia Mia Ella Grace Chloe Zoe Lily Ruby Nora Alice Clara Julia Sarah Laura Kate
Emily Hannah Amira Fatima Aisha Leila Priya Anjali Mei Yuki Hana Ingrid Freya Rosa Carmen Lucia Elena Nadia Olga Tara
Maya Naomi Esther Ruth Wanjiru Amara Chioma Zanele Thandi Betty Jane Susan Karen Linda Mary Jenny Megan Natalia Weng
Sally Molly Holly Ivy Rachel Tina Wendy Gina Daisy Eva""".split()
HE = """Tom Ben Sam Max Leo Jack Oliver Noah Liam Lucas Henry Oscar Felix Hugo Paul Peter John James David Daniel Adam
Omar Ali Hassan Yusuf Ravi Arjun Vikram Wei Jun Kenji Hiro Lars Erik Sven Carlos Diego Mateo Pablo Ivan Dmitri Boris
Kofi Kwame Tunde Jabari Sipho Thabo Bob Bill George Frank Mark Luke Ryan Kevin Brian Steve Mike Joe Tim Toby Harry
Alex Eric Simon Martin Albert Nick Victor""".split()
PEOPLE = [Person(n, "she", "her", "her") for n in SHE] + [Person(n, "he", "his", "him") for n in HE]

THINGS = [Thing(*pair.split("/")) for pair in """apple/apples pen/pens pencil/pencils book/books marble/marbles
sticker/stickers coin/coins card/cards shell/shells stamp/stamps cookie/cookies muffin/muffins cupcake/cupcakes
orange/oranges banana/bananas pear/pears peach/peaches lemon/lemons plum/plums egg/eggs tomato/tomatoes potato/potatoes
carrot/carrots onion/onions flower/flowers rose/roses tulip/tulips button/buttons bead/beads ribbon/ribbons
balloon/balloons candle/candles crayon/crayons marker/markers notebook/notebooks eraser/erasers ruler/rulers
folder/folders magazine/magazines comic/comics toy/toys doll/dolls puzzle/puzzles block/blocks ball/balls kite/kites
ticket/tickets badge/badges medal/medals candy/candies chocolate/chocolates sandwich/sandwiches bagel/bagels
donut/donuts pie/pies cake/cakes bottle/bottles cup/cups plate/plates spoon/spoons brick/bricks stone/stones
tile/tiles nail/nails screw/screws seed/seeds plant/plants photo/photos postcard/postcards letter/letters
battery/batteries lamp/lamps shirt/shirts sock/socks hat/hats scarf/scarves bracelet/bracelets mango/mangoes
strawberry/strawberries cherry/cherries walnut/walnuts pebble/pebbles""".split()]
EDIBLE = set("""apple cookie muffin cupcake orange banana pear peach lemon plum egg tomato potato carrot candy chocolate
sandwich bagel donut pie cake mango strawberry cherry walnut""".split())
GOODS = [Thing(*pair.split("/")) for pair in """pen/pens book/books notebook/notebooks shirt/shirts hat/hats toy/toys
ball/balls lamp/lamps scarf/scarves ticket/tickets cake/cakes pizza/pizzas sandwich/sandwiches plant/plants mug/mugs
chair/chairs backpack/backpacks game/games puzzle/puzzles poster/posters kite/kites doll/dolls candle/candles
bag/bags towel/towels umbrella/umbrellas belt/belts brush/brushes coffee/coffees salad/salads burger/burgers
mango/mangoes melon/melons pineapple/pineapples""".split()]
CONTAINERS = [Thing(*pair.split("/")) for pair in """box/boxes bag/bags basket/baskets pack/packs crate/crates jar/jars
tray/trays packet/packets carton/cartons case/cases""".split()]

PAST = dict(pair.split("/") for pair in """has/had buys/bought gives/gave gets/got finds/found loses/lost sells/sold
makes/made uses/used receives/received adds/added takes/took doubles/doubled triples/tripled quadruples/quadrupled
starts/started owns/owned collects/collected picks/picked fills/filled brings/brought eats/ate bakes/baked spends/spent
pays/paid earns/earned saves/saved puts/put shares/shared divides/divided splits/split packs/packed costs/cost is/was
are/were works/worked reads/read drives/drove walks/walked cycles/cycled rides/rode scores/scored counts/counted
sees/saw holds/held contains/contained needs/needed wants/wanted keeps/kept""".split())

RELATIVES = "brother sister friend cousin neighbor mother father uncle aunt teacher grandmother grandfather".split()
PLACES = ["school", "the market", "the park", "the library", "the shop", "home", "the fair", "the beach"]
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

ONSETS = "b d f g h j k l m n p r s t v w z br tr kl pl st ch sh".split()
VOWELS = "a e i o u a e i o ai ou".split()
ENDINGS = ["", "", "n", "r", "l", "s", "m", "k", "x"]


def invented_word(rng):
    """Pronounceable nonsense, so that the model learns to copy a word that it has never seen."""
    syllables = [rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.between(1, 3))]
    return "".join(syllables) + rng.choice(ENDINGS)


def draw_person(rng, *others):
    """Someone who is not one of the others."""
    while True:
        person = rng.choice(PEOPLE)
        if rng.percent(8):
            person = person._replace(name=invented_word(rng).capitalize())
        if all(person.name != other.name for other in others):
            return person


def draw_thing(rng, things=THINGS):
    if rng.percent(8):
        word = invented_word(rng)
        return Thing(word, word + ("es" if word[-1] in "sx" else "s"))
    return rng.choice(things)
