"""What the phrase book must say, written by hand: sentences of every kind and the forms of every verb."""

PAIRS = """
You are welcome. | De nada.
You are welcome | De nada
Thank you very much. | Muchas gracias.
How are you? | ¿Cómo estás?
Congratulations! | ¡Felicidades!
You are welcome, Ana. | De nada, Ana.
Good morning, sir. | Buenos días, señor.
How are you, my friend? | ¿Cómo estás, amigo mío?
Good luck, Luis! | ¡Buena suerte, Luis!
My name is Ana. | Me llamo Ana.
I do not eat fish. | No como pescado.
I eat bread and cheese. | Como pan y queso.
You always eat fresh fruit. | Siempre comes fruta fresca.
We never eat meat. | Nunca comemos carne.
He sometimes eats eggs. | Él a veces come huevos.
She buys apples every day. | Ella compra manzanas todos los días.
They brought the oranges last night. | Anoche trajeron las naranjas.
You all are going to bring cheese tonight. | Esta noche ustedes van a traer queso.
I brought the fresh bread yesterday. | Ayer traje el pan fresco.
The girls eat apples. | Las chicas comen manzanas.
Why does your mother eat meat? | ¿Por qué come carne tu madre?
Do you all buy eggs? | ¿Ustedes compran huevos?
He orders the fish on Sundays. | Él pide el pescado los domingos.
They ordered soup last week. | La semana pasada pidieron sopa.
Luis ordered the chicken yesterday. | Ayer Luis pidió el pollo.
Where did you order this soup? | ¿Dónde pediste esta sopa?
I drink the cold water. | Bebo el agua fría.
She drinks hot milk at night. | Ella bebe leche caliente por la noche.
We drank this water yesterday. | Ayer bebimos esta agua.
Our parents do not drink wine. | Nuestros padres no beben vino.
Do you drink coffee? | ¿Bebes café?
We read the newspaper every day. | Leemos el periódico todos los días.
We read the newspaper yesterday. | Ayer leímos el periódico.
You read these letters last week. | La semana pasada leíste estas cartas.
They read the old newspapers last night. | Anoche leyeron los periódicos viejos.
The woman read the long letter yesterday. | Ayer la mujer leyó la carta larga.
Are you going to read that interesting newspaper? | ¿Vas a leer ese periódico interesante?
I wrote the short poems last week. | La semana pasada escribí los poemas cortos.
My sisters are going to write these letters tomorrow. | Mañana mis hermanas van a escribir estas cartas.
When did Ana write the poem? | ¿Cuándo escribió Ana el poema?
I look for my keys. | Busco mis llaves.
I looked for the umbrella yesterday. | Ayer busqué el paraguas.
You find the red umbrella. | Encuentras el paraguas rojo.
He does not find my black pencil. | Él no encuentra mi lápiz negro.
You all look for your keys. | Ustedes buscan sus llaves.
Our parents are going to find the watches. | Nuestros padres van a encontrar los relojes.
Where did they find the green bag? | ¿Dónde encontraron la bolsa verde?
I lost the blue pencil yesterday. | Ayer perdí el lápiz azul.
They lost my pencils last night. | Anoche perdieron mis lápices.
She always loses the key. | Ella siempre pierde la llave.
Where did you lose my watch? | ¿Dónde perdiste mi reloj?
I bought the red car yesterday. | Ayer compré el coche rojo.
We are not going to sell those chairs. | No vamos a vender esas sillas.
Ana is going to buy the white table. | Ana va a comprar la mesa blanca.
Did Pedro sell the old bicycle? | ¿Pedro vendió la bicicleta vieja?
Where are you going to buy the blue dress? | ¿Dónde vas a comprar el vestido azul?
They wash the green hats. | Lavan los sombreros verdes.
Your brother washes the cars. | Tu hermano lava los coches.
When are you going to wash my shirt? | ¿Cuándo vas a lavar mi camisa?
I open the small boxes. | Abro las cajas pequeñas.
He closes the blue doors. | Él cierra las puertas azules.
We close the big windows. | Cerramos las ventanas grandes.
I did not close the door yesterday. | Ayer no cerré la puerta.
The men opened the box yesterday. | Ayer los hombres abrieron la caja.
Carmen opened those boxes yesterday. | Ayer Carmen abrió esas cajas.
Why do you close the window? | ¿Por qué cierras la ventana?
We take the bus every day. | Tomamos el autobús todos los días.
I waited for the train last night. | Anoche esperé el tren.
Your sister waits for the yellow bus. | Tu hermana espera el autobús amarillo.
Where did she take the train? | ¿Dónde tomó ella el tren?
We saw the old church yesterday. | Ayer vimos la iglesia vieja.
They saw this pretty beach last Saturday. | El sábado pasado vieron esta playa bonita.
I am going to visit Madrid next week. | La próxima semana voy a visitar Madrid.
Your father saw the museums yesterday. | Ayer tu padre vio los museos.
Is she going to visit those libraries? | ¿Ella va a visitar esas bibliotecas?
I go to the market on Sundays. | Voy al mercado los domingos.
We went to the park yesterday. | Ayer fuimos al parque.
You are going to go to the beach tomorrow. | Mañana vas a ir a la playa.
They arrive at the hotel. | Llegan al hotel.
I arrived at the station last night. | Anoche llegué a la estación.
He returns from the hospital. | Él vuelve del hospital.
We return from the office at night. | Volvemos de la oficina por la noche.
The child went to the school yesterday. | Ayer el niño fue a la escuela.
When did you return from the museum? | ¿Cuándo volviste del museo?
She works in the bank. | Ella trabaja en el banco.
My father works in this hospital. | Mi padre trabaja en este hospital.
The boys study in this library. | Los chicos estudian en esta biblioteca.
Carmen is going to eat in the garden tomorrow. | Mañana Carmen va a comer en el jardín.
The children slept in the hotel yesterday. | Ayer los niños durmieron en el hotel.
The boys did not play in the park last week. | La semana pasada los chicos no jugaron en el parque.
My brothers speak English. | Mis hermanos hablan inglés.
Do your parents work at the market? | ¿Tus padres trabajan en el mercado?
I study in the library every day. | Estudio en la biblioteca todos los días.
When is Ana going to study in the garden? | ¿Cuándo va a estudiar Ana en el jardín?
We ate in this restaurant last Saturday. | El sábado pasado comimos en este restaurante.
Did he eat in the kitchen? | ¿Él comió en la cocina?
I sleep in our house. | Duermo en nuestra casa.
He slept in Paris last night. | Anoche él durmió en París.
They slept in that hotel last week. | La semana pasada durmieron en ese hotel.
Did you sleep in the hotel? | ¿Dormiste en el hotel?
I played in the garden yesterday. | Ayer jugué en el jardín.
You play at the beach. | Juegas en la playa.
Do Ana and Luis run in the park? | ¿Ana y Luis corren en el parque?
I speak Spanish. | Hablo español.
Do you speak English? | ¿Hablas inglés?
I see the teacher. | Veo al profesor.
We visit our grandmother. | Visitamos a nuestra abuela.
They helped Carmen yesterday. | Ayer ayudaron a Carmen.
You all are going to call your mother tonight. | Esta noche ustedes van a llamar a su madre.
I wait for the students. | Espero a los estudiantes.
The woman visits my grandmother. | La mujer visita a mi abuela.
When did Luis call the doctor? | ¿Cuándo llamó Luis al médico?
I speak with my sister every day. | Hablo con mi hermana todos los días.
My brother works with your teacher. | Mi hermano trabaja con tu profesor.
Did you speak with the doctor? | ¿Hablaste con el médico?
I give the book to Ana. | Le doy el libro a Ana.
She gave the flowers to my parents yesterday. | Ayer ella les dio las flores a mis padres.
Carmen gives the book to my grandmother. | Carmen le da el libro a mi abuela.
Did Ana give this book to our grandmother? | ¿Ana le dio este libro a nuestra abuela?
Are you going to bring the key to my uncle? | ¿Le vas a traer la llave a mi tío?
They did not give a watch to the man last week. | La semana pasada no le dieron un reloj al hombre.
I know your uncle. | Conozco a tu tío.
We know Madrid. | Conocemos Madrid.
Do you know my friends? | ¿Conoces a mis amigos?
I have a black dog. | Tengo un perro negro.
You have my key. | Tienes mi llave.
She does not have an umbrella. | Ella no tiene un paraguas.
We have two sisters. | Tenemos dos hermanas.
Carmen has many books. | Carmen tiene muchos libros.
They have three small cats. | Tienen tres gatos pequeños.
Do you have a dog? | ¿Tienes un perro?
Does Luis have five pencils? | ¿Luis tiene cinco lápices?
I want cold milk. | Quiero leche fría.
They need the chair. | Necesitan la silla.
Why do you want hot tea? | ¿Por qué quieres té caliente?
I want to buy a car. | Quiero comprar un coche.
She has to wash my shirt. | Ella tiene que lavar mi camisa.
We do not need to go to the bank. | No necesitamos ir al banco.
They want to visit Lima tomorrow. | Mañana quieren visitar Lima.
Ana has to eat meat. | Ana tiene que comer carne.
Why do you have to study English? | ¿Por qué tienes que estudiar inglés?
I can open the window. | Puedo abrir la ventana.
They cannot go to the park. | No pueden ir al parque.
We cannot read this book. | No podemos leer este libro.
Can you close the door? | ¿Puedes cerrar la puerta?
I like apples. | Me gustan las manzanas.
You like coffee. | Te gusta el café.
He likes water. | A él le gusta el agua.
We do not like old cars. | No nos gustan los coches viejos.
You all like cats. | A ustedes les gustan los gatos.
Ana and Luis like cheese. | A Ana y a Luis les gusta el queso.
The man likes wine. | Al hombre le gusta el vino.
Do you like books? | ¿Te gustan los libros?
I like the red car. | Me gusta el coche rojo.
My mother likes these chairs. | A mi madre le gustan estas sillas.
You all do not like your house. | A ustedes no les gusta su casa.
Does she like the black skirt? | ¿A ella le gusta la falda negra?
I like to read. | Me gusta leer.
They do not like to go to the museum. | No les gusta ir al museo.
Do you like to drink tea? | ¿Te gusta beber té?
The dogs play in the park. | Los perros juegan en el parque.
My cat always eats fish. | Mi gato siempre come pescado.
The horse eats the apple. | El caballo come la manzana.
These cats drink milk. | Estos gatos beben leche.
Your dog drank the water yesterday. | Ayer tu perro bebió el agua.
She wears a new dress. | Ella lleva un vestido nuevo.
Ana is going to wear my red skirt tomorrow. | Mañana Ana va a llevar mi falda roja.
He wore the blue coat yesterday. | Ayer él llevó el abrigo azul.
I live in a small house. | Vivo en una casa pequeña.
They live near the station. | Viven cerca de la estación.
He does not live next to the market. | Él no vive al lado del mercado.
She bought an old bicycle last week. | La semana pasada ella compró una bicicleta vieja.
We are going to buy many flowers tomorrow. | Mañana vamos a comprar muchas flores.
You ate an orange last night. | Anoche comiste una naranja.
I wrote a short letter yesterday. | Ayer escribí una carta corta.
She reads two interesting books. | Ella lee dos libros interesantes.
She washes her red shirt. | Ella lava su camisa roja.
He looks for his keys. | Él busca sus llaves.
They wear their hats. | Llevan sus sombreros.
Ana visits her grandfather. | Ana visita a su abuelo.
Who reads the newspaper? | ¿Quién lee el periódico?
Who opened the door? | ¿Quién abrió la puerta?
Who is going to buy the table? | ¿Quién va a comprar la mesa?
What do you eat? | ¿Qué comes?
What does the woman want to buy? | ¿Qué quiere comprar la mujer?
What did Carmen read? | ¿Qué leyó Carmen?
What do they have to write? | ¿Qué tienen que escribir?
Where do you live? | ¿Dónde vives?
Where does Ana work? | ¿Dónde trabaja Ana?
Where are the children going to sleep? | ¿Dónde van a dormir los niños?
Open the window, please. | Abre la ventana, por favor.
Please bring my umbrella. | Por favor, trae mi paraguas.
Please call the doctor. | Por favor, llama al médico.
I am a teacher. | Soy profesor.
She is a doctor. | Ella es médica.
We are students. | Somos estudiantes.
My mother is a nurse. | Mi madre es enfermera.
My sisters are not teachers. | Mis hermanas no son profesoras.
Is Ana a student? | ¿Ana es estudiante?
You are very tall. | Eres muy alto.
Ana and Carmen are tall. | Ana y Carmen son altas.
The girls are young. | Las chicas son jóvenes.
The man is not kind. | El hombre no es amable.
Are your parents intelligent? | ¿Tus padres son inteligentes?
I am tired. | Estoy cansado.
She is very tired today. | Hoy ella está muy cansada.
We are ready. | Estamos listos.
The women are happy. | Las mujeres están contentas.
You all are sad. | Ustedes están tristes.
Why are you sad? | ¿Por qué estás triste?
Why is Carmen busy? | ¿Por qué está ocupada Carmen?
I am from Lima. | Soy de Lima.
Where is Ana from? | ¿De dónde es Ana?
Are you from London? | ¿Eres de Londres?
I am hungry. | Tengo hambre.
You are very thirsty. | Tienes mucha sed.
He is always cold. | Él siempre tiene frío.
We are very sleepy today. | Hoy tenemos mucho sueño.
They are not afraid. | No tienen miedo.
Why are your parents hot? | ¿Por qué tienen calor tus padres?
I am twenty years old. | Tengo veinte años.
My mother is forty years old. | Mi madre tiene cuarenta años.
How old is your brother? | ¿Cuántos años tiene tu hermano?
This shirt is expensive. | Esta camisa es cara.
These hats are blue. | Estos sombreros son azules.
Those keys are not new. | Esas llaves no son nuevas.
Is your car green? | ¿Tu coche es verde?
My poem is very difficult. | Mi poema es muy difícil.
Those letters are boring. | Esas cartas son aburridas.
The house is big. | La casa es grande.
Are these hotels pretty? | ¿Estos hoteles son bonitos?
My cats are white. | Mis gatos son blancos.
The table is dirty. | La mesa está sucia.
Your hats are always clean. | Tus sombreros siempre están limpios.
The door is open. | La puerta está abierta.
The museums are closed today. | Hoy los museos están cerrados.
The water is very cold. | El agua está muy fría.
My soup is not hot. | Mi sopa no está caliente.
Ana's car is red. | El coche de Ana es rojo.
I see the doctor's keys. | Veo las llaves del médico.
The doctor's umbrella is black. | El paraguas del médico es negro.
We found Pedro's hats yesterday. | Ayer encontramos los sombreros de Pedro.
This book costs ten euros. | Este libro cuesta diez euros.
The skirts cost thirty euros. | Las faldas cuestan treinta euros.
How much does the red shirt cost? | ¿Cuánto cuesta la camisa roja?
How much do those chairs cost? | ¿Cuánto cuestan esas sillas?
I am at the station. | Estoy en la estación.
Ana is in the kitchen. | Ana está en la cocina.
We are not in Paris. | No estamos en París.
Are you in the garden? | ¿Estás en el jardín?
The keys are on the table. | Las llaves están en la mesa.
My pencil is under that chair. | Mi lápiz está debajo de esa silla.
Is your umbrella behind the door? | ¿Tu paraguas está detrás de la puerta?
The cat is under the table. | El gato está debajo de la mesa.
The bank is near the park. | El banco está cerca del parque.
Is the hotel in front of the beach? | ¿El hotel está delante de la playa?
Where is the station? | ¿Dónde está la estación?
Where are my keys? | ¿Dónde están mis llaves?
How is your mother? | ¿Cómo está tu madre?
There is a cat in the garden. | Hay un gato en el jardín.
There are two chairs in the kitchen. | Hay dos sillas en la cocina.
There are many girls at the beach. | Hay muchas chicas en la playa.
There is no milk in the house. | No hay leche en la casa.
Is there a bank near the station? | ¿Hay un banco cerca de la estación?
How many flowers are there in the garden? | ¿Cuántas flores hay en el jardín?
How many books are there in the library? | ¿Cuántos libros hay en la biblioteca?
Ana is taller than my uncle. | Ana es más alta que mi tío.
My car is newer than your car. | Mi coche es más nuevo que tu coche.
These letters are longer than those books. | Estas cartas son más largas que esos libros.
The skirt is more expensive than that coat. | La falda es más cara que ese abrigo.
It is one o'clock. | Es la una.
It is half past three in the afternoon. | Son las tres y media de la tarde.
It is a quarter to eight in the morning. | Son las ocho menos cuarto de la mañana.
It is ten o'clock at night. | Son las diez de la noche.
The train leaves at six o'clock. | El tren sale a las seis.
The museum opens at half past nine every day. | El museo abre a las nueve y media todos los días.
The bus is going to arrive at one o'clock tomorrow. | Mañana el autobús va a llegar a la una.
What time does the train arrive? | ¿A qué hora llega el tren?
What time do you eat? | ¿A qué hora comes?
I leave at seven o'clock. | Salgo a las siete.
You return at half past six every day. | Vuelves a las seis y media todos los días.
She went to the library last Monday. | El lunes pasado ella fue a la biblioteca.
I am going to go to the bank on Wednesday. | El miércoles voy a ir al banco.
Today is Monday. | Hoy es lunes.
Is tomorrow Friday? | ¿Mañana es viernes?
It is cold. | Hace frío.
It is very hot in Madrid today. | Hoy hace mucho calor en Madrid.
Is it sunny at the beach? | ¿Hace sol en la playa?
It is going to be windy tomorrow. | Mañana va a hacer viento.
It is raining. | Está lloviendo.
It rained in London last night. | Anoche llovió en Londres.
It never rains in Lima. | Nunca llueve en Lima.
It is not going to rain. | No va a llover.
"""

# Present, then preterite: I, you, he or she, we, they.
CONJUGATIONS = """
comer: como comes come comemos comen; comí comiste comió comimos comieron
beber: bebo bebes bebe bebemos beben; bebí bebiste bebió bebimos bebieron
comprar: compro compras compra compramos compran; compré compraste compró compramos compraron
vender: vendo vendes vende vendemos venden; vendí vendiste vendió vendimos vendieron
traer: traigo traes trae traemos traen; traje trajiste trajo trajimos trajeron
pedir: pido pides pide pedimos piden; pedí pediste pidió pedimos pidieron
leer: leo lees lee leemos leen; leí leíste leyó leímos leyeron
escribir: escribo escribes escribe escribimos escriben; escribí escribiste escribió escribimos escribieron
encontrar: encuentro encuentras encuentra encontramos encuentran; \
encontré encontraste encontró encontramos encontraron
perder: pierdo pierdes pierde perdemos pierden; perdí perdiste perdió perdimos perdieron
buscar: busco buscas busca buscamos buscan; busqué buscaste buscó buscamos buscaron
llevar: llevo llevas lleva llevamos llevan; llevé llevaste llevó llevamos llevaron
lavar: lavo lavas lava lavamos lavan; lavé lavaste lavó lavamos lavaron
abrir: abro abres abre abrimos abren; abrí abriste abrió abrimos abrieron
cerrar: cierro cierras cierra cerramos cierran; cerré cerraste cerró cerramos cerraron
ver: veo ves ve vemos ven; vi viste vio vimos vieron
visitar: visito visitas visita visitamos visitan; visité visitaste visitó visitamos visitaron
ayudar: ayudo ayudas ayuda ayudamos ayudan; ayudé ayudaste ayudó ayudamos ayudaron
llamar: llamo llamas llama llamamos llaman; llamé llamaste llamó llamamos llamaron
esperar: espero esperas espera esperamos esperan; esperé esperaste esperó esperamos esperaron
conocer: conozco conoces conoce conocemos conocen; conocí conociste conoció conocimos conocieron
tomar: tomo tomas toma tomamos toman; tomé tomaste tomó tomamos tomaron
ir: voy vas va vamos van; fui fuiste fue fuimos fueron
llegar: llego llegas llega llegamos llegan; llegué llegaste llegó llegamos llegaron
volver: vuelvo vuelves vuelve volvemos vuelven; volví volviste volvió volvimos volvieron
salir: salgo sales sale salimos salen; salí saliste salió salimos salieron
trabajar: trabajo trabajas trabaja trabajamos trabajan; trabajé trabajaste trabajó trabajamos trabajaron
estudiar: estudio estudias estudia estudiamos estudian; estudié estudiaste estudió estudiamos estudiaron
vivir: vivo vives vive vivimos viven; viví viviste vivió vivimos vivieron
correr: corro corres corre corremos corren; corrí corriste corrió corrimos corrieron
jugar: juego juegas juega jugamos juegan; jugué jugaste jugó jugamos jugaron
dormir: duermo duermes duerme dormimos duermen; dormí dormiste durmió dormimos durmieron
hablar: hablo hablas habla hablamos hablan; hablé hablaste habló hablamos hablaron
dar: doy das da damos dan; di diste dio dimos dieron
tener: tengo tienes tiene tenemos tienen; tuve tuviste tuvo tuvimos tuvieron
querer: quiero quieres quiere queremos quieren; quise quisiste quiso quisimos quisieron
necesitar: necesito necesitas necesita necesitamos necesitan; necesité necesitaste necesitó necesitamos necesitaron
gustar: gusto gustas gusta gustamos gustan; gusté gustaste gustó gustamos gustaron
poder: puedo puedes puede podemos pueden; pude pudiste pudo pudimos pudieron
costar: cuesto cuestas cuesta costamos cuestan; costé costaste costó costamos costaron
llover: lluevo llueves llueve llovemos llueven; lloví lloviste llovió llovimos llovieron
ser: soy eres es somos son; fui fuiste fue fuimos fueron
estar: estoy estás está estamos están; estuve estuviste estuvo estuvimos estuvieron
hacer: hago haces hace hacemos hacen; hice hiciste hizo hicimos hicieron
"""
