"""The topics of the dialogues: what people wish for, and the advice that can be given, in freely varying words.

Data only; the phrases are those of `phrases.py`. Each tip is complete in itself, so that tips follow in any order.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """What dialogues of one topic are made of.

    Attributes:
        name: Names the topic in the key of the split.
        thing: What it is about, as "the trip".
        goals: What the user wants, after "to".
        one: Values of the slot `{one}`.
        two: Values of the slot `{two}`.
        tips: Sentences of advice.
    """

    name: str
    thing: str
    goals: tuple[str, ...]
    one: tuple[str, ...]
    two: tuple[str, ...]
    tips: tuple[str, ...]


TOPICS = (
    Topic(
        "travel",
        "the trip",
        (
            "plan a trip to {one} with {two}",
            "spend a weekend in {one} with {two}",
            "travel to {one} by train with {two}",
        ),
        (
            "Rome",
            "Paris",
            "Lisbon",
            "Vienna",
            "Prague",
            "Berlin",
            "Madrid",
            "Dublin",
            "Athens",
            "Oslo",
            "Kyoto",
            "Boston",
        ),
        ("my family", "two friends", "my parents", "a small child", "my dog", "my sister", "a colleague"),
        (
            "[Book|Reserve] [the train|a room|your tickets] [early|a few weeks ahead], because [prices go up "
            "quickly|the "
            "good places fill up fast].",
            "[Spend|Plan] the first day [in the old town|near the river|close to the hotel], so [you can rest a little|"
            "nobody gets tired|you get to know {one}].",
            "[Take|Pack] [comfortable shoes|a light jacket|an umbrella], since [you will walk a lot|the weather in "
            "{one} "
            "changes quickly].",
            "[Try|Do not miss] [the local market|a small cafe|the food halls], where [people from {one} go|lunch is "
            "good "
            "and cheap].",
            "[Ask|Check] at the hotel [about a day pass|for a city map|which museums are free]; [it saves money|it "
            "takes "
            "only a minute].",
            "[Leave|Keep] [one afternoon|the last day] free, [for {two} to choose|in case it rains|so that there is no "
            "hurry].",
        ),
    ),
    Topic(
        "cooking",
        "the meal",
        ("cook {one} for {two}", "learn how to make {one} for {two}", "prepare {one} a day ahead for {two}"),
        (
            "pasta",
            "tomato soup",
            "fried rice",
            "a curry",
            "pancakes",
            "an apple pie",
            "roast chicken",
            "a big salad",
            "bean stew",
            "lasagna",
            "fresh bread",
            "potato soup",
        ),
        ("six guests", "my kids", "a birthday", "a dinner party", "my neighbors", "a picnic", "the whole week"),
        (
            "[Cut|Chop] [the vegetables|the onions|everything] [before you start|in small pieces], so that [it cooks "
            "evenly|you do not have to hurry later].",
            "[Heat|Warm up] [the pan|the oven|some olive oil] [slowly|over a low flame] and [add a little garlic|wait "
            "until it is hot|do not let it smoke].",
            "[Taste|Try] it [often|while it cooks|near the end], and add [a pinch of salt|some pepper|a little lemon "
            "juice] if [it tastes flat|you like it stronger].",
            "[Use|Buy] [fresh herbs|good butter|ripe tomatoes]; [that makes a big difference|{two} will notice it].",
            "[Let|Leave] it [rest|stand] for [ten minutes|a quarter of an hour] before [you serve it|you cut it].",
            "[Make|Cook] [a little more than you need|a double portion], because [it keeps well in the fridge|it "
            "tastes "
            "even better the next day].",
        ),
    ),
    Topic(
        "reading",
        "the book",
        (
            "find a book about {one} for {two}",
            "choose a good {one} book as a present for {two}",
            "start reading more about {one} with {two}",
        ),
        ("history", "travel", "music", "science", "art", "nature", "sports", "cooking", "space", "the sea", "chess"),
        ("my father", "a ten year old", "my book club", "a long flight", "my teacher", "the holidays", "a friend"),
        (
            "[Look for|Choose] [a short one|something with pictures|a well known author], because [it is easier to "
            "finish|most people enjoy that].",
            "[Ask|Talk to] [the librarian|the people in the book shop|someone] who [knows a lot about {one}|likes the "
            "same things].",
            "[Read|Try] [the first page|one chapter] before you [buy it|decide], and [see if it makes you "
            "curious|trust "
            "your own taste].",
            "[Used books|Library books] are [cheaper|free|just as good], so [you can try several|there is no risk].",
            "[A novel|A true story] is often [more fun|a better start] than [a thick textbook|a list of facts].",
            "[Set aside|Plan] [ten minutes|half an hour] [every evening|before bed], and [the habit will come|you "
            "will be "
            "done in a month].",
        ),
    ),
    Topic(
        "schedule",
        "the meeting",
        ("move {one} to {two}", "find a time for {one} on {two}", "remind everyone about {one} on {two}"),
        (
            "our team meeting",
            "my dentist appointment",
            "the piano lesson",
            "the phone call",
            "the job interview",
            "my haircut",
            "the parents' evening",
            "the book club",
            "our lunch",
            "the yoga class",
        ),
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        (
            "[I can see|It looks like] [the morning|the afternoon|the whole day] of {two} is [still free|not taken "
            "yet].",
            "[Shall I|Should I] [put {one} at ten|send everyone a note|block one hour]? [It only takes a moment.|You "
            "can "
            "change it later.]",
            "[Please check|Make sure] that [nobody is on holiday|the room is free|all of them can come] [before you "
            "confirm|on {two}].",
            "[Send|Write] [a short message|an email] [today|right away], so that [people can plan|nobody waits for "
            "you].",
            "[Leave|Keep] [a few minutes|half an hour] [before and after|for the way there], because [these things run "
            "late|you may need a break].",
            "[Set|Add] [a reminder|an alarm] for [the evening before|an hour earlier], and [you will not forget it|it "
            "cannot get lost].",
        ),
    ),
    Topic(
        "fitness",
        "the training",
        ("start {one} {two}", "get better at {one} {two}", "keep up {one} {two}"),
        (
            "running",
            "swimming",
            "yoga",
            "cycling",
            "lifting weights",
            "tennis",
            "dancing",
            "climbing",
            "rowing",
            "hiking",
        ),
        ("after a long break", "before work", "with a sore knee", "in the winter", "with a friend", "twice a week"),
        (
            "[Begin|Start] [slowly|with ten minutes|with an easy pace], and [add a little every week|listen to your "
            "body|"
            "stop before it hurts].",
            "[Warm up|Stretch] [well|for five minutes] [before you start|each time], so [you do not get hurt|your "
            "muscles "
            "are ready].",
            "[Drink|Have] [enough water|a glass of water] [before and after|on warm days], [even if you are not "
            "thirsty|"
            "and eat something light].",
            "[Rest|Take a break] [every second day|when you are tired], because [that is when you get stronger|your "
            "body "
            "needs time].",
            "[Find|Join] [a small group|a partner|a class nearby], since [it is more fun together|you will not skip "
            "it so "
            "easily].",
            "[Write down|Keep track of] [what you do|your progress], and [you will see how far you have come|small "
            "steps "
            "will show].",
        ),
    ),
    Topic(
        "support",
        "your account",
        ("{one} on {two}", "find out how to {one} on {two}", "get someone to {one} on {two}"),
        (
            "reset my password",
            "change my email address",
            "cancel my order",
            "get a refund",
            "update my address",
            "download my invoice",
            "delete an old account",
            "track my package",
            "turn off the emails",
        ),
        ("the website", "my phone", "the new app", "my tablet", "the company page", "an old computer"),
        (
            "[Open|Go to] [the settings|your profile|the menu] and [click|tap] on [account|privacy|help]; [you will "
            "see "
            "it at the top|it is the second entry].",
            "[Check|Look at] [your inbox|the spam folder] for [a message from us|a link], [which is valid for one "
            "hour|and "
            "follow the steps].",
            "[Please make sure|Check] that [the app is up to date|you are signed in|the address is correct] [before "
            "you "
            "try again|first].",
            "[If that does not work,|If you still see an error,] [restart|sign out on] [your device|the browser] and "
            "[wait "
            "a minute|try once more].",
            "[You can also|It is possible to] [call us|write to our team|use the chat] [from nine to five|on "
            "weekdays], "
            "and [somebody will help you|we answer within a day].",
            "[Keep|Have] [the order number|your last bill] [ready|at hand], because [we will ask for it|it makes "
            "things "
            "faster].",
        ),
    ),
    Topic(
        "garden",
        "the garden",
        ("grow {one} {two}", "take care of {one} {two}", "plant {one} {two}"),
        ("tomatoes", "roses", "herbs", "strawberries", "sunflowers", "carrots", "lettuce", "tulips", "beans", "mint"),
        ("on a balcony", "in a small garden", "in the shade", "on a window sill", "in dry soil", "near the house"),
        (
            "[Water|Check] them [in the morning|every two days|when the soil feels dry], but [not too much|do not let "
            "water stand in the pot].",
            "[Choose|Find] [a sunny spot|a place without wind|a big pot], because {one} [need light|like to be warm].",
            "[Use|Mix in] [good soil|some compost|a little sand], so that [the roots can breathe|they grow strong].",
            "[Cut off|Remove] [dry leaves|weak stems] [once a week|as soon as you see them], and [new ones will "
            "come|they "
            "stay healthy].",
            "[Wait|Do not plant] [until the last frost|until April], since [cold nights hurt young plants|they need "
            "warm "
            "ground].",
            "[Look|Watch] for [small insects|snails|yellow spots] [under the leaves|in the evening], and [wash them "
            "off|"
            "act early].",
        ),
    ),
    Topic(
        "study",
        "the exam",
        ("study {one} for {two}", "learn {one} faster for {two}", "understand {one} better before {two}"),
        (
            "math",
            "French",
            "history",
            "biology",
            "Spanish",
            "physics",
            "geography",
            "music theory",
            "chemistry",
            "grammar",
        ),
        ("an exam", "a test on Friday", "my new job", "a long trip", "school", "the final week"),
        (
            "[Make|Write] [a simple plan|a list of topics|small cards], and [do one part each day|cross off what you "
            "know|"
            "begin with the hardest].",
            "[Study|Work] for [twenty minutes|half an hour] and then [take a short break|walk around], so [your mind "
            "stays "
            "fresh|you can keep going].",
            "[Explain|Teach] [one idea|the main points] to [a friend|somebody else] [in your own words|without "
            "notes], and "
            "[you will see what is missing|it will stay with you].",
            "[Solve|Try] [old questions|a practice test] [under real conditions|with a clock], because [that shows "
            "what you "
            "need|it takes away the fear].",
            "[Sleep|Rest] well [the night before|every night], since [a tired head forgets|your memory works at "
            "night].",
            "[Put|Leave] [your phone|the computer] [in another room|in a drawer], and [you will learn twice as "
            "fast|ask "
            "someone to keep it].",
        ),
    ),
    Topic(
        "home",
        "the work",
        ("{one} {two}", "find a cheap way to {one} {two}", "{one} all by myself {two}"),
        (
            "paint the kitchen",
            "fix a leaking tap",
            "clean the oven",
            "hang a heavy picture",
            "repair a chair",
            "paint the door",
            "build a shelf",
            "wash the windows",
            "sort the basement",
            "fix the fence",
        ),
        (
            "this weekend",
            "before we move",
            "without much noise",
            "in one day",
            "with simple tools",
            "on a small budget",
        ),
        (
            "[Cover|Protect] [the floor|the furniture] with [old newspapers|a cloth], so that [nothing gets "
            "dirty|you can "
            "clean up easily].",
            "[Turn off|Check] [the water|the power] [before you begin|first], because [safety matters most|accidents "
            "happen "
            "fast].",
            "[Measure|Mark] everything [twice|with a pencil], and [then make the first cut|write the numbers down].",
            "[Borrow|Rent] [the tools|a ladder] from [a neighbor|the shop], since [you need them only once|good ones "
            "cost a "
            "lot].",
            "[Let|Leave] it [dry|rest] [overnight|for a few hours] [before you touch it|with the windows open].",
            "[Ask|Call] [a friend|an expert] when [you are not sure|it gets too heavy], [that is no shame|and share "
            "a pizza "
            "later].",
        ),
    ),
    Topic(
        "party",
        "the party",
        ("plan {one} for {two}", "find a present for {two} for {one}", "organize {one} with {two}"),
        (
            "a birthday party",
            "a small wedding",
            "a farewell dinner",
            "a garden party",
            "a school party",
            "an anniversary",
            "a surprise party",
            "a game night",
            "a summer picnic",
        ),
        ("my mother", "my best friend", "our boss", "my little brother", "thirty people", "the neighbors", "my wife"),
        (
            "[Write|Make] [a guest list|a short list] and [send the invitations|call everyone] [early|two weeks "
            "ahead], so "
            "[people can plan|you know how many will come].",
            "[Choose|Pick] [a simple theme|some good music|a nice color], and [the rest will follow|keep to it].",
            "[Ask|Let] [every guest|some friends] [to bring a dish|help with the food], because [it saves you "
            "work|people "
            "like to help].",
            "[Think of|Plan] [a game|a short speech|something for the children], [but do not fill every minute|so that "
            "nobody is bored].",
            "[A personal gift|Something made by hand] is [better|nicer] than [an expensive one|flowers], and [it "
            "will be "
            "remembered|it shows you care].",
            "[Have|Keep] [a plan for rain|some extra chairs|enough to drink], [just in case|and you can relax].",
        ),
    ),
    Topic(
        "pets",
        "your pet",
        ("train {one} to {two}", "teach {one} to {two}", "get {one} to {two}"),
        ("my dog", "our puppy", "the cat", "a young parrot", "our new kitten", "my old dog", "my rabbit", "the pony"),
        (
            "stay calm",
            "sleep alone",
            "come when called",
            "walk beside me",
            "stop biting",
            "like visitors",
            "use a box",
            "travel by car",
        ),
        (
            "[Give|Offer] [a small treat|some praise] [right away|each time it goes well], so that [the link is "
            "clear|it "
            "becomes a game].",
            "[Practice|Train] [five minutes|a little] [every day|before dinner], because [short lessons work "
            "best|patience "
            "is the key].",
            "[Stay|Be] [calm|patient] and [do not shout|speak softly], since [animals feel your mood|fear makes it "
            "worse].",
            "[Start|Begin] in [a quiet room|a place without noise], and [go outside later|make it harder step by "
            "step].",
            "[Use|Choose] [the same word|one clear sign] [every time|in the whole family], [or it gets confusing|and "
            "repeat "
            "it].",
            "[See|Ask] [a vet|a trainer] if [nothing changes|you see signs of pain], because [there may be another "
            "reason|an "
            "expert sees more].",
        ),
    ),
    Topic(
        "money",
        "your plan",
        ("save money for {one} {two}", "spend less on {one} {two}", "set up a budget for {one} {two}"),
        ("a new bike", "a holiday", "a computer", "food", "clothes", "a used car", "a course", "coffee", "gifts"),
        ("this month", "as a student", "with two kids", "before summer", "on a small income", "in one year"),
        (
            "[Write down|Note] [every expense|what you spend] for [a week|one month], and [you will find "
            "surprises|look at "
            "it on Sunday].",
            "[Put|Move] [a fixed amount|ten percent] [into savings|aside] [on payday|first], so [you never miss "
            "it|it grows "
            "by itself].",
            "[Compare|Check] prices [online|in three shops], because [the difference is often large|a minute can "
            "save a "
            "lot].",
            "[Wait|Sleep] [a night|two days] before [you buy anything big|each large purchase], and [see if you "
            "still want "
            "it|the wish may pass].",
            "[Cancel|Stop] [what you do not use|old subscriptions], since [small sums add up|nobody will miss them].",
            "[Cook|Eat] at home [more often|during the week], [which is cheaper|and take lunch with you].",
        ),
    ),
)
